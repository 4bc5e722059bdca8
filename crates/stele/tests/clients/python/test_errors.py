"""Requests that are refused, and what they are told."""

import pytest
from google.api_core import exceptions
from google.cloud.bigtable.data import MutationsExceptionGroup, ReadRowsQuery, RowMutationEntry, SetCell
from google.cloud.bigtable.data import row_filters as rf
from google.cloud.bigtable.data.read_modify_write_rules import AppendValueRule, IncrementRule
from google.cloud.bigtable_v2 import types

import clients


@pytest.fixture(scope="module")
def table(admin, client, kind):
    name = f"errors-{kind}"
    admin.create(name, ["f"])
    return client.table(name)


def refused(error, *words):
    """Expects `error` with all `words` in its text."""
    return pytest.raises(error, match="".join(f"(?=.*{word})" for word in words))


def test_an_unknown_table(client):
    missing = client.table("missing")
    for call in [
        lambda: missing.read_row(b"r"),
        lambda: missing.mutate_row(b"r", SetCell("f", b"q", b"v")),
        lambda: missing.sample_row_keys(),
        lambda: missing.read_modify_write_row(b"r", AppendValueRule("f", b"q", b"v")),
        lambda: missing.check_and_mutate_row(b"r", None, true_case_mutations=SetCell("f", b"q", b"v")),
    ]:
        with refused(exceptions.NotFound, "tables/missing"):
            call()


def test_an_unknown_family(table):
    for call in [
        lambda: table.mutate_row(b"r", SetCell("nothing", b"q", b"v")),
        lambda: table.read_modify_write_row(b"r", AppendValueRule("nothing", b"q", b"v")),
    ]:
        with refused(exceptions.NotFound, "nothing"):
            call()


def test_keys(table):
    longest = b"k" * 4096
    table.mutate_row(longest, SetCell("f", b"q", b"v"))
    assert table.row_exists(longest)
    with refused(exceptions.InvalidArgument, "row_key", "4096|4 KiB"):
        table.mutate_row(longest + b"k", SetCell("f", b"q", b"v"))
    with refused(exceptions.InvalidArgument, "row_key", "empty"):
        table.mutate_row(b"", SetCell("f", b"q", b"v"))
    with refused(exceptions.InvalidArgument, "16384|16 KiB"):
        table.mutate_row(b"r", SetCell("f", b"q" * 16385, b"v"))


def test_timestamps(table):
    for micros in (1, 1001):
        with refused(exceptions.InvalidArgument, "timestamp", "1000"):
            table.mutate_row(b"r", SetCell("f", b"q", b"v", micros))


def test_regular_expressions(table):
    for bad in [
        rf.RowKeyRegexFilter(b"a("),
        rf.ColumnQualifierRegexFilter(b"*"),
        rf.ValueRegexFilter(b"[z-a]"),
        rf.FamilyNameRegexFilter("a{2,1}"),
        rf.ValueRegexFilter(b"(a)\\1"),
    ]:
        with refused(exceptions.InvalidArgument, "regex"):
            table.read_rows(ReadRowsQuery(row_filter=bad))


def test_filters(table):
    for bad, word in [
        (rf.CellsRowLimitFilter(0), "cells_per_row_limit"),
        (rf.CellsColumnLimitFilter(-1), "cells_per_column_limit"),
        (rf.CellsRowOffsetFilter(-1), "cells_per_row_offset"),
        (rf.RowSampleFilter(1.5), "row_sample"),
        (rf.ApplyLabelFilter("Not A Label"), "label"),
        (rf.RowFilterChain([rf.PassAllFilter(True)]), "chain"),
        (rf.RowFilterUnion([rf.PassAllFilter(True)]), "interleave"),
        (rf.PassAllFilter(False), "pass_all"),
        (rf.ConditionalRowFilter(rf.SinkFilter(True), rf.PassAllFilter(True)), "sink"),
        (rf.ColumnRangeFilter("f", b"b", b"a"), "column_range|column range"),
        (rf.ValueRangeFilter(b"b", b"a"), "value_range|value range"),
    ]:
        with refused(exceptions.InvalidArgument, word):
            table.read_rows(ReadRowsQuery(row_filter=bad))
    deep = rf.PassAllFilter(True)
    for _ in range(25):
        deep = rf.RowFilterChain([rf.PassAllFilter(True), deep])
    with refused(exceptions.InvalidArgument, "filter", "20"):
        table.read_rows(ReadRowsQuery(row_filter=deep))


def test_an_inverted_range(admin, table):
    """The client refuses to make one; so this goes through the stub."""
    range_ = {"start_key_closed": b"b", "end_key_open": b"a"}
    request = {"table_name": admin.name(table.table_id), "rows": {"row_ranges": [range_]}}
    with refused(exceptions.InvalidArgument, "row_ranges"):
        list(admin.classic.table_data_client.read_rows(request=request))


def test_increments_need_eight_bytes(table):
    table.mutate_row(b"text", SetCell("f", b"q", b"text"))
    with refused(exceptions.GoogleAPICallError, "f", "8|eight|64"):
        table.read_modify_write_row(b"text", IncrementRule("f", b"q", 1))


def test_a_check_and_mutate_that_changes_nothing(table):
    request = types.CheckAndMutateRowRequest(
        table_name=clients.Admin().name(table.table_id), row_key=b"r"
    )
    with refused(exceptions.InvalidArgument, "mutations"):
        clients.Admin().classic.table_data_client.check_and_mutate_row(request=request)


def test_too_many_mutations(admin, table):
    """The client refuses an entry with too many; so this sends many entries, by the stub."""
    one = types.Mutation(set_cell=types.Mutation.SetCell(family_name="f", timestamp_micros=1000))
    entry = types.MutateRowsRequest.Entry(row_key=b"r", mutations=[one] * 50_001)
    request = types.MutateRowsRequest(table_name=admin.name(table.table_id), entries=[entry] * 2)
    with refused(exceptions.InvalidArgument, "100000|100,000"):
        list(admin.classic.table_data_client.mutate_rows(request=request))


@pytest.mark.parametrize("kind", ["sync"], scope="session")
def test_a_value_over_the_limit(admin, kind, client):
    admin.create("oversized", ["f"])
    table = client.table("oversized")
    with refused(exceptions.InvalidArgument, "value", "104857600|100 MiB"):
        table.mutate_row(b"r", SetCell("f", b"q", bytes((100 << 20) + 1), 1000))
    assert table.read_row(b"r") is None


def test_bad_names(admin):
    for name in ["a b", "-x", "x" * 51, ""]:
        with refused(exceptions.InvalidArgument, "table_id"):
            admin.create(name, ["f"])
    for family in ["a b", "x" * 65]:
        with refused(exceptions.InvalidArgument, "family"):
            admin.create("named", [family])


def test_an_entry_of_a_batch_without_a_key(table):
    entry = RowMutationEntry(b"x", SetCell("f", b"q", b"v"))
    entry.row_key = b""
    with pytest.raises(MutationsExceptionGroup) as caught:
        table.bulk_mutate_rows([entry, RowMutationEntry(b"kept", SetCell("f", b"q", b"v"))])
    assert "empty" in str(caught.value.exceptions[0].__cause__)
    assert table.row_exists(b"kept")
