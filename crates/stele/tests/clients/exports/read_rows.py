"""Prints the rows of exported files as `stele export --format jsonl --encoding base64` does.

No code of Stele reads the files, but fastavro, PyArrow, and Python's own for CSV and JSON.
"""

import base64
import csv
import itertools
import json
import re
import sys

import fastavro
import pyarrow
import pyarrow.parquet

ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r", b"\\t": b"\t"}


def unescape(text):
    """Returns the bytes of a text in the escaped encoding."""

    def byte(match):
        escape = match.group(0)
        return ESCAPES[escape] if escape in ESCAPES else bytes([int(escape[2:], 16)])

    return re.sub(rb"\\(x[0-9a-f]{2}|.)", byte, text.encode())


def encode(data):
    return base64.b64encode(data).decode()


def cell(family, qualifier, timestamp, value):
    return {
        "family": family,
        "qualifier_base64": encode(qualifier),
        "timestamp": timestamp,
        "value_base64": encode(value),
    }


def avro(path):
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        assert reader.writer_schema["name"] == "com.google.cloud.teleport.bigtable.BigtableRow"
        for row in reader:
            names = ("family", "qualifier", "timestamp", "value")
            yield row["key"], [cell(*(found[name] for name in names)) for found in row["cells"]]


def parquet(path):
    table = pyarrow.parquet.read_table(path)
    assert table.schema.field("timestamp").type == pyarrow.timestamp("us", tz="UTC")
    names = ("key", "family", "qualifier", "timestamp", "value")
    stamps = table.column("timestamp").cast(pyarrow.int64())
    table = table.set_column(table.column_names.index("timestamp"), "timestamp", stamps)
    cells = zip(*(table.column(name).to_pylist() for name in names))
    for key, found in itertools.groupby(cells, lambda found: found[0]):
        yield key, [cell(*columns) for _, *columns in found]


def csv_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        assert next(lines) == ["key", "family", "qualifier", "timestamp", "value"]
        for key, cells in itertools.groupby(lines, lambda line: line[0]):
            yield unescape(key), [
                cell(family, unescape(qualifier), int(timestamp), unescape(value))
                for _, family, qualifier, timestamp, value in cells
            ]


def json_rows(path):
    with open(path, encoding="utf-8") as file:
        for row in map(json.loads, file):
            yield unescape(row["key"]), [
                cell(
                    found["family"],
                    unescape(found["qualifier"]),
                    found["timestamp"],
                    unescape(found["value"]),
                )
                for found in row["cells"]
            ]


READERS = {"avro": avro, "parquet": parquet, "csv": csv_rows, "jsonl": json_rows}


def main():
    for path in sys.argv[1:]:
        for key, cells in READERS[path.rsplit(".", 1)[1]](path):
            row = {"key_base64": encode(key), "cells": cells}
            print(json.dumps(row, ensure_ascii=False, separators=(",", ":")))


main()
