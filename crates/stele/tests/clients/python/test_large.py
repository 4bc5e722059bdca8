"""Rows and values larger than a chunk and a message."""

import hashlib

import pytest
from google.cloud.bigtable.data import ReadRowsQuery, RowMutationEntry, SetCell
from google.cloud.bigtable.data import row_filters as rf

MIB = 1 << 20


def noise(name, size):
    """Bytes that do not compress, the same ones for the same name."""
    return hashlib.shake_128(name.encode()).digest(size)


@pytest.fixture(scope="module")
def large(admin, client, kind, first):
    """`wide`: 30 MiB in three values, each larger than a message; `many`: 20,000 cells; `after`."""
    name = f"large-{kind}"
    if first:
        admin.create(name, ["f", "g"])
        table = client.table(name)
        for n in range(3):
            table.mutate_row(b"wide", SetCell("f", b"v%d" % n, noise(f"v{n}", 10 * MIB), 1000))
        for start in range(0, 20_000, 5_000):
            cells = [SetCell("g", b"%06d" % n, b"x" * 50, 1000) for n in range(start, start + 5_000)]
            table.mutate_row(b"many", cells)
        table.mutate_row(b"z-after", SetCell("f", b"q", b"end", 1000))
        table.bulk_mutate_rows(
            [RowMutationEntry(b"mib%02d" % n, SetCell("f", b"q", noise(f"m{n}", MIB), 1000)) for n in range(8)]
        )
    return client.table(name)


@pytest.mark.lasting
def test_a_row_of_30_mib(large):
    row = large.read_row(b"wide")
    assert [(c.qualifier, c.value == noise(f"v{n}", 10 * MIB)) for n, c in enumerate(row.cells)] == [
        (b"v0", True),
        (b"v1", True),
        (b"v2", True),
    ]


@pytest.mark.lasting
def test_a_row_of_20000_cells(large):
    row = large.read_row(b"many")
    assert [cell.qualifier for cell in row.cells] == [b"%06d" % n for n in range(20_000)]
    row = large.read_row(b"many", row_filter=rf.CellsRowOffsetFilter(19_998))
    assert [cell.qualifier for cell in row.cells] == [b"019998", b"019999"]


@pytest.mark.lasting
def test_large_rows_among_small_ones(large):
    rows = large.read_rows(ReadRowsQuery())
    keys = [b"many"] + [b"mib%02d" % n for n in range(8)] + [b"wide", b"z-after"]
    assert [row.row_key for row in rows] == keys
    assert all(rows[n + 1].cells[0].value == noise(f"m{n}", MIB) for n in range(8))


@pytest.mark.lasting
def test_large_values_are_not_sent_when_stripped(large):
    query = ReadRowsQuery(row_filter=rf.StripValueTransformerFilter(True), row_keys=[b"wide"])
    (row,) = large.read_rows(query)
    assert [cell.value for cell in row.cells] == [b"", b"", b""]
