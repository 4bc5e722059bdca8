"""SQL: what the client's own examples and samples ask, and more rows than come at once."""

import datetime
import struct

import pytest
from google.api_core import exceptions
from google.cloud.bigtable.data import RowMutationEntry, SetCell
from google.cloud.bigtable.data.execute_query import SqlType

TABLE = "queried"
STATE = {b"row-01": b"CA", b"row-02": b"AZ"}


@pytest.fixture(scope="module")
def table(admin, client, first, kind):
    """A table of addresses, each with an old state."""
    name = f"{TABLE}-{kind}"
    if first:
        admin.create(name, ["address", "count"])
        table = client.table(name)
        for row, state in STATE.items():
            cells = [
                SetCell("address", b"state", b"WA", 1000),
                SetCell("address", b"state", state, 2000),
                SetCell("address", b"city", b"city of " + row, 1000),
                SetCell("count", b"n", struct.pack(">q", 7), 1000),
            ]
            table.mutate_row(row, cells)
    return name


def day(date):
    """The day of a date, which the client gives as a message."""
    return datetime.date(date.year, date.month, date.day)


def test_all_columns(client, table):
    rows = client.query(f"SELECT * FROM `{table}` ORDER BY _key LIMIT 5")
    assert [row["_key"] for row in rows] == list(STATE)
    assert [row["address"] for row in rows] == [
        {b"city": b"city of " + row, b"state": state} for row, state in STATE.items()
    ]


@pytest.mark.lasting
def test_a_row_by_its_key(client, table):
    text = f"SELECT _key, address['state'] AS state, TO_INT64(count['n']) AS n FROM {table}"
    for key in ["row-02", b"row-02"]:
        (row,) = client.query(f"{text} WHERE _key=@row_key", parameters={"row_key": key})
        assert (row["_key"], row["state"], row["n"]) == (b"row-02", b"AZ", 7)
    assert client.query(f"{text} WHERE _key = 'none'") == []


def test_conditions(client, table):
    for condition, want in [
        ("_key BETWEEN 'row-00' AND 'row-01'", [b"row-01"]),
        ("STARTS_WITH(_key, 'row-')", list(STATE)),
        ("_key LIKE 'row-%2'", [b"row-02"]),
        ("address['state'] = 'CA' OR address['none'] IS NOT NULL", [b"row-01"]),
        ("CAST(address['state'] AS STRING) > @state", [b"row-01"]),
        ("_key IN UNNEST(@keys) AND NOT MAP_CONTAINS_KEY(address, 'none')", [b"row-02"]),
    ]:
        rows = client.query(
            f"SELECT _key FROM `{table}` WHERE {condition}",
            parameters={"state": "AZ", "keys": [b"row-02", b"row-03"]},
            parameter_types={"keys": SqlType.Array(SqlType.Bytes())},
        )
        assert [row["_key"] for row in rows] == want, condition


def test_all_types_in_a_result(client, table):
    (row,) = client.query(
        "SELECT 'stringVal' AS strCol, b'foo' as bytesCol, 1 AS intCol, "
        "CAST(1.2 AS FLOAT32) as f32Col, CAST(1.3 AS FLOAT64) as f64Col, true as boolCol, "
        "TIMESTAMP_FROM_UNIX_MILLIS(1000) AS tsCol, DATE(2024, 06, 01) as dateCol, "
        'STRUCT(1 as a, "foo" as b) AS structCol, [1,2,3] AS arrCol, address as mapCol '
        f"FROM `{table}` WHERE _key='row-01' LIMIT 1"
    )
    assert (row["strCol"], row["bytesCol"], row["intCol"]) == ("stringVal", b"foo", 1)
    assert (row["f32Col"], row["f64Col"]) == (pytest.approx(1.2), 1.3)
    assert (row["boolCol"], row["arrCol"]) == (True, [1, 2, 3])
    assert row["tsCol"] == datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)
    assert day(row["dateCol"]) == datetime.date(2024, 6, 1)
    assert (row["structCol"]["a"], row["structCol"]["b"]) == (1, "foo")
    assert row["mapCol"] == {b"state": b"CA", b"city": b"city of row-01"}


def test_all_types_of_parameters(client):
    now = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=datetime.timezone.utc)
    values = {
        "s": ("text", SqlType.String()),
        "b": (b"\xff", SqlType.Bytes()),
        "i": (-(2**63), SqlType.Int64()),
        "f": (1.5, SqlType.Float64()),
        "t": (True, SqlType.Bool()),
        "ts": (now, SqlType.Timestamp()),
        "d": (now.date(), SqlType.Date()),
        "n": (None, SqlType.Int64()),
        "a": (["x", None], SqlType.Array(SqlType.String())),
    }
    (row,) = client.query(
        "SELECT " + ", ".join(f"@{name} AS {name}" for name in values),
        parameters={name: value for name, (value, _) in values.items()},
        parameter_types={name: of for name, (_, of) in values.items()},
    )
    got = {name: row[name] for name in values}
    assert {**got, "d": day(got["d"])} == {name: value for name, (value, _) in values.items()}


def test_many_rows_come_once_and_in_order(client, new_table):
    table = new_table(["f"])
    keys = [f"{n:05}".encode() for n in range(3000)]
    entries = [RowMutationEntry(key, SetCell("f", b"q", key * 200, 1000)) for key in keys]
    table.bulk_mutate_rows(entries)
    rows = client.query(f"SELECT _key, f['q'] AS v FROM `{table.table_id}`")
    assert [row["_key"] for row in rows] == keys
    assert all(row["v"] == row["_key"] * 200 for row in rows)


def test_what_is_not_served_is_refused(client, table):
    for text, error, words in [
        (f"SELECT COUNT(*) FROM `{table}`", exceptions.MethodNotImplemented, "COUNT"),
        (f"SELECT * FROM `{table}`(with_history => TRUE)", exceptions.MethodNotImplemented, "with_history"),
        (f"SELECT none FROM `{table}`", exceptions.InvalidArgument, "unrecognized name: none"),
        ("SELECT * FROM none", exceptions.NotFound, "none"),
    ]:
        with pytest.raises(error, match=words):
            client.query(text)
