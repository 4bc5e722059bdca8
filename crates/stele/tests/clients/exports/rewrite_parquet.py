"""Writes the cells of a Parquet file to another one as PyArrow does it by default, with optional columns
and in another order: IN OUT CODEC."""

import sys

import pyarrow.parquet

source, target, codec = sys.argv[1:]
table = pyarrow.parquet.read_table(source)
table = table.select(["value", "timestamp", "qualifier", "family", "key"])
version = "2.0" if codec == "zstd" else "1.0"
pyarrow.parquet.write_table(
    table, target, compression=codec, row_group_size=1000, data_page_version=version
)
