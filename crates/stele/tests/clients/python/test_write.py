"""Writes of every kind, and what reads show of them."""

import struct
import time

import pytest
from google.cloud.bigtable.data import (
    AddToCell,
    DeleteAllFromFamily,
    DeleteAllFromRow,
    DeleteRangeFromColumn,
    MutationsExceptionGroup,
    ReadRowsQuery,
    RowMutationEntry,
    SetCell,
)
from google.cloud.bigtable.data import row_filters as rf
from google.cloud.bigtable.data.read_modify_write_rules import AppendValueRule, IncrementRule

import clients


def values(row):
    """Cells of a row as (family, qualifier, timestamp in ms, value)."""
    cells = row.cells if row else []
    return [(c.family, c.qualifier, c.timestamp_micros // 1000, c.value) for c in cells]


def int64(n):
    return struct.pack(">q", n)


def test_a_row_is_written_and_read(new_table):
    table = new_table(["f", "g"])
    table.mutate_row(b"r", [SetCell("g", b"b", b"2", 2000), SetCell("f", b"a", b"1", 1000)])
    assert values(table.read_row(b"r")) == [("f", b"a", 1, b"1"), ("g", b"b", 2, b"2")]
    assert table.row_exists(b"r") and not table.row_exists(b"s")
    assert table.read_row(b"s") is None


def test_the_server_gives_whole_milliseconds(new_table):
    table = new_table(["f"])
    before = time.time_ns() // 1000
    table.mutate_row(b"r", SetCell("f", b"q", b"v", -1))
    (cell,) = table.read_row(b"r").cells
    after = time.time_ns() // 1000
    assert cell.timestamp_micros % 1000 == 0
    assert before - 1000 <= cell.timestamp_micros <= after


def test_a_cell_written_twice_is_replaced(new_table):
    table = new_table(["f"])
    for value in [b"first", b"second"]:
        table.mutate_row(b"r", SetCell("f", b"q", value, 1000))
    assert values(table.read_row(b"r")) == [("f", b"q", 1, b"second")]


def test_integers_are_eight_bytes(new_table):
    table = new_table(["f"])
    table.mutate_row(b"r", SetCell("f", b"q", -2, 1000))
    assert int(table.read_row(b"r").cells[0]) == -2


def test_deletes_take_what_was_there(new_table):
    table = new_table(["f", "g"])
    sets = [SetCell("f", q, b"v", ms * 1000) for q in (b"a", b"b") for ms in (1, 2, 3)]
    table.mutate_row(b"r", sets + [SetCell("g", b"c", b"v", 1000)])
    table.mutate_row(b"r", DeleteRangeFromColumn("f", b"a", 2000, 3000))
    assert [ms for _, q, ms, _ in values(table.read_row(b"r")) if q == b"a"] == [3, 1]
    table.mutate_row(b"r", DeleteRangeFromColumn("f", b"a"))
    assert [q for _, q, _, _ in values(table.read_row(b"r"))] == [b"b", b"b", b"b", b"c"]
    table.mutate_row(b"r", SetCell("f", b"a", b"back", 1000))
    assert values(table.read_row(b"r"))[0] == ("f", b"a", 1, b"back")
    table.mutate_row(b"r", DeleteAllFromFamily("f"))
    assert values(table.read_row(b"r")) == [("g", b"c", 1, b"v")]
    table.mutate_row(b"r", DeleteAllFromRow())
    assert table.read_row(b"r") is None


def test_mutations_of_a_row_take_effect_in_their_order(new_table):
    table = new_table(["f"])
    table.mutate_row(b"r", SetCell("f", b"old", b"v", 1000))
    table.mutate_row(b"r", [DeleteAllFromRow(), SetCell("f", b"new", b"v", 1000)])
    assert values(table.read_row(b"r")) == [("f", b"new", 1, b"v")]
    table.mutate_row(b"r", [SetCell("f", b"newer", b"v", 1000), DeleteAllFromFamily("f")])
    assert table.read_row(b"r") is None


def test_a_batch_reports_bad_entries_and_applies_the_rest(new_table):
    table = new_table(["f"])
    entries = [
        RowMutationEntry(b"good1", SetCell("f", b"q", b"v")),
        RowMutationEntry(b"bad family", SetCell("nothing", b"q", b"v")),
        RowMutationEntry(b"good2", SetCell("f", b"q", b"v")),
        RowMutationEntry(b"bad time", SetCell("f", b"q", b"v", 1)),
        RowMutationEntry(b"half bad", [SetCell("f", b"q", b"v"), SetCell("nothing", b"q", b"v")]),
    ]
    with pytest.raises(MutationsExceptionGroup) as caught:
        table.bulk_mutate_rows(entries)
    failed = {e.entry.row_key: str(e.__cause__) for e in caught.value.exceptions}
    assert sorted(failed) == [b"bad family", b"bad time", b"half bad"]
    assert "404" in failed[b"bad family"] and "nothing" in failed[b"bad family"]
    assert "400" in failed[b"bad time"] and "1000" in failed[b"bad time"]
    keys = [row.row_key for row in table.read_rows(ReadRowsQuery())]
    assert keys == [b"good1", b"good2"]


def test_the_batcher(new_table):
    table = new_table(["f"])
    keys = [f"k{n:05}".encode() for n in range(3000)]
    clients.write_with_batcher(
        table, [RowMutationEntry(key, SetCell("f", b"q", key, 1000)) for key in keys]
    )
    rows = list(table.read_rows_stream(ReadRowsQuery()))
    assert [row.row_key for row in rows] == keys
    assert all(row.cells[0].value == row.row_key for row in rows)


def test_sharded_reads(new_table):
    table = new_table(["f"], splits=[b"k1", b"k2"])
    keys = [f"k{n}".encode() for n in range(30)]
    table.bulk_mutate_rows([RowMutationEntry(key, SetCell("f", b"q", b"v")) for key in keys])
    samples = table.sample_row_keys()
    shards = ReadRowsQuery().shard(samples)
    # The splits, and samples near the last rows of tablets.
    assert len(shards) >= 3
    rows = table.read_rows_sharded(shards)
    assert sorted(row.row_key for row in rows) == sorted(keys)


def test_row_sample_yields_whole_rows(new_table):
    table = new_table(["f"])
    sets = [SetCell("f", q, b"v", 1000) for q in (b"a", b"b", b"c")]
    table.bulk_mutate_rows([RowMutationEntry(f"k{n:04}", sets) for n in range(1000)])
    rows = table.read_rows(ReadRowsQuery(row_filter=rf.RowSampleFilter(0.3)))
    assert 200 < len(rows) < 400
    assert all(len(row.cells) == 3 for row in rows)


def test_check_and_mutate(new_table):
    table = new_table(["f"])
    table.mutate_row(b"r", SetCell("f", b"state", b"open", 1000))
    is_open = rf.RowFilterChain(
        [rf.ColumnQualifierRegexFilter(b"state"), rf.CellsColumnLimitFilter(1), rf.ValueRegexFilter(b"open")]
    )

    def close():
        return table.check_and_mutate_row(
            b"r",
            is_open,
            true_case_mutations=SetCell("f", b"state", b"closed", 2000),
            false_case_mutations=[SetCell("f", b"refused", b"yes", 1000)],
        )

    assert close() is True
    assert values(table.read_row(b"r"))[0] == ("f", b"state", 2, b"closed")
    assert close() is False
    assert values(table.read_row(b"r"))[0] == ("f", b"refused", 1, b"yes")
    exists = lambda row: table.check_and_mutate_row(
        row, None, false_case_mutations=SetCell("f", b"made", b"", 1000)
    )
    assert [exists(b"fresh"), exists(b"fresh")] == [False, True]


def test_read_modify_write(new_table):
    table = new_table(["f", "g"])
    row = table.read_modify_write_row(
        b"r", [IncrementRule("f", b"n", 5), AppendValueRule("g", b"log", b"ab")]
    )
    assert [(c.family, c.qualifier, c.value) for c in row.cells] == [
        ("f", b"n", int64(5)),
        ("g", b"log", b"ab"),
    ]
    row = table.read_modify_write_row(
        b"r",
        [AppendValueRule("g", b"log", b"cd"), AppendValueRule("g", b"log", b"ef"), IncrementRule("f", b"n", -7)],
    )
    newest = {c.qualifier: c.value for c in reversed(row.cells)}
    assert newest == {b"n": int64(-2), b"log": b"abcdef"}
    latest = table.read_row(b"r", row_filter=rf.CellsColumnLimitFilter(1))
    assert {c.qualifier: c.value for c in latest.cells} == newest


def test_newer_than_the_clock_is_still_replaced_by_read_modify_write(new_table):
    table = new_table(["f"])
    future = (time.time_ns() // 10**6 + 3_600_000) * 1000
    table.mutate_row(b"r", SetCell("f", b"n", 10, future))
    table.read_modify_write_row(b"r", IncrementRule("f", b"n", 1))
    newest = table.read_row(b"r", row_filter=rf.CellsColumnLimitFilter(1)).cells[0]
    assert int(newest) == 11


AGGREGATES = {"sum": 12, "min": -3, "max": 10}


@pytest.fixture(scope="module")
def totals(admin, client, kind, first):
    """A table with one family for each aggregate, into each of which 10, 5 and -3 went."""
    name = f"totals-{kind}"
    if first:
        families = {
            how: {"value_type": {"aggregate_type": {"input_type": {"int64_type": {}}, how: {}}}}
            for how in AGGREGATES
        }
        admin.create(name, families)
        for amount in (10, 5, -3):
            adds = [AddToCell(how, b"q", amount, 1000) for how in AGGREGATES]
            client.table(name).mutate_row(b"r", adds)
        client.table(name).mutate_row(b"r", [AddToCell("sum", b"q", 1, 2000)])
    return client.table(name)


@pytest.mark.lasting
def test_aggregates_fold(totals):
    cells = values(totals.read_row(b"r"))
    assert ("sum", b"q", 2, int64(1)) in cells
    for how, folded in AGGREGATES.items():
        assert (how, b"q", 1, int64(folded)) in cells


def test_aggregate_families_refuse_plain_cells(totals):
    from google.api_core import exceptions

    with pytest.raises(exceptions.InvalidArgument, match="sum"):
        totals.mutate_row(b"r", SetCell("sum", b"q", b"12345678", 1000))


def test_versions_beyond_the_rule_are_not_shown(admin, new_table):
    table = new_table({"two": {"gc_rule": {"max_num_versions": 2}}, "old": {"gc_rule": {"max_age": {"seconds": 60}}}})
    table.mutate_row(b"r", [SetCell("two", b"q", b"%d" % ms, ms * 1000) for ms in range(1, 6)])
    table.mutate_row(b"r", [SetCell("old", b"q", b"past", 1000), SetCell("old", b"q", b"now", -1)])
    cells = values(table.read_row(b"r"))
    assert [(f, v) for f, _, _, v in cells if f == "two"] == [("two", b"5"), ("two", b"4")]
    assert [v for f, _, _, v in cells if f == "old"] == [b"now"]
