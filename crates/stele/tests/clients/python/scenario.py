"""The rows and reads of ../scenario.json, said in the terms of the Python client."""

import json
import pathlib

from google.cloud.bigtable.data import ReadRowsQuery, RowMutationEntry, RowRange, SetCell
from google.cloud.bigtable.data import row_filters as rf

PATH = pathlib.Path(__file__).parent.parent / "scenario.json"
SCENARIO = json.loads(PATH.read_text("utf-8"))
READS = [read for read in SCENARIO["reads"] if read.get("only", "python") == "python"]


def raw(text):
    return text.encode("latin-1")


def text(raw_bytes):
    return raw_bytes.decode("latin-1")


def entries():
    """The scenario's rows as entries of a batch."""
    for key, cells in SCENARIO["rows"].items():
        sets = [SetCell(fam, raw(qual), raw(value), micros) for fam, qual, micros, value in cells]
        yield RowMutationEntry(raw(key), sets)


def line(key, family, qualifier, micros, value, labels):
    label = "".join(f" {{{label}}}" for label in labels)
    return f"{text(key)} {family}:{text(qualifier)} @{micros} = {text(value)}{label}"


def lines(rows):
    """The lines of rows, in the order in which they and their cells came."""
    return [
        line(row.row_key, c.family, c.qualifier, c.timestamp_micros, c.value, c.labels)
        for row in rows
        for c in row.cells
    ]


def query(read):
    """The query of a read that is not reversed."""
    return ReadRowsQuery(
        row_keys=[raw(key) for key in read.get("keys", [])],
        row_ranges=[row_range(bounds) for bounds in ranges_of(read)],
        limit=read.get("limit"),
        row_filter=row_filter(read["filter"]) if "filter" in read else None,
    )


def ranges_of(read):
    if "prefix" not in read:
        return read.get("ranges", [])
    prefix = read["prefix"]
    last = prefix.rstrip("\u00ff")
    if not last:
        return [{"from": prefix}]
    return [{"from": prefix, "below": last[:-1] + chr(ord(last[-1]) + 1)}]


def row_range(bounds):
    start = bounds.get("from", bounds.get("after"))
    end = bounds.get("to", bounds.get("below"))
    return RowRange(
        start_key=None if start is None else raw(start),
        end_key=None if end is None else raw(end),
        start_is_inclusive=None if start is None else "from" in bounds,
        end_is_inclusive=None if end is None else "to" in bounds,
    )


def bounds_of(range_, of):
    """Keyword arguments of the client's range filters."""
    out = {}
    if "from" in range_ or "after" in range_:
        out[f"start_{of}"] = raw(range_.get("from", range_.get("after")))
        out["inclusive_start"] = "from" in range_
    if "to" in range_ or "below" in range_:
        out[f"end_{of}"] = raw(range_.get("to", range_.get("below")))
        out["inclusive_end"] = "to" in range_
    return out


def row_filter(tree):
    """The client's filter for a filter of the scenario."""
    if "if" in tree:
        branch = {name: row_filter(tree[name]) for name in ("then", "else") if name in tree}
        return rf.ConditionalRowFilter(
            row_filter(tree["if"]), branch.get("then"), branch.get("else")
        )
    ((kind, value),) = tree.items()
    makers = {
        "chain": lambda: rf.RowFilterChain([row_filter(sub) for sub in value]),
        "interleave": lambda: rf.RowFilterUnion([row_filter(sub) for sub in value]),
        "pass": lambda: rf.PassAllFilter(True),
        "block": lambda: rf.BlockAllFilter(True),
        "sink": lambda: rf.SinkFilter(True),
        "strip": lambda: rf.StripValueTransformerFilter(True),
        "label": lambda: rf.ApplyLabelFilter(value),
        "row_key": lambda: rf.RowKeyRegexFilter(raw(value)),
        "family": lambda: rf.FamilyNameRegexFilter(value),
        "qualifier": lambda: rf.ColumnQualifierRegexFilter(raw(value)),
        "value": lambda: rf.ValueRegexFilter(raw(value)),
        "columns": lambda: rf.ColumnRangeFilter(value["family"], **bounds_of(value, "qualifier")),
        "values": lambda: rf.ValueRangeFilter(**bounds_of(value, "value")),
        "times": lambda: Times(*value),
        "per_column": lambda: rf.CellsColumnLimitFilter(value),
        "per_row": lambda: rf.CellsRowLimitFilter(value),
        "skip": lambda: rf.CellsRowOffsetFilter(value),
    }
    return makers[kind]()


class Times(rf.RowFilter):
    """A timestamp range in microseconds; the client's own class takes datetimes."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def _to_dict(self):
        range_ = {"start_timestamp_micros": self.start, "end_timestamp_micros": self.end}
        return {"timestamp_range_filter": range_}


def read_reversed(client, table_name, read):
    """The lines of a reversed read. The data client has no such option, so that this goes
    through its generated stub and puts the cells together by itself."""
    request = query(read)._to_pb(FakeTarget(table_name))
    request.reversed = True
    out, row, key, family, qualifier = [], [], b"", "", b""
    for response in client.read_rows(request=request):
        for chunk in response.chunks:
            assert chunk.value_size == 0, "the scenario's values fit into one chunk"
            if chunk.row_key:
                key, row = chunk.row_key, []
            family = chunk._pb.family_name.value if chunk._pb.HasField("family_name") else family
            if chunk._pb.HasField("qualifier"):
                qualifier = chunk._pb.qualifier.value
            cell = (chunk.timestamp_micros, chunk.value, chunk.labels)
            row.append(line(key, family, qualifier, *cell))
            if chunk.commit_row:
                out, row = out + row, []
    assert not row, "the last row was not committed"
    return out


class FakeTarget:
    """What a query wants of the table that it is for."""

    app_profile_id = None

    def __init__(self, table_name):
        self._request_path = {"table_name": table_name}
