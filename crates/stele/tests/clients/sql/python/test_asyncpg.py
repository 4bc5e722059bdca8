"""asyncpg: everything in binary, with types that it looks up by itself."""

import asyncio
import datetime as dt
import decimal
import io
import json
import os
import uuid

import asyncpg
import pytest

D = decimal.Decimal
ADDRESS = os.environ["CLIENTS_SQL"].split("?")[0]

VALUES = [
    ("bool", True), ("int2", -1), ("int4", 2**31 - 1), ("int8", -(2**63)), ("float4", 1.5), ("float8", 0.1),
    ("numeric", D("12345678901234567890.000100")), ("text", "€"), ("varchar", "x"), ("bytea", b"\x00\xff"),
    ("uuid", uuid.UUID(int=9)), ("date", dt.date(2024, 2, 29)), ("time", dt.time(1, 2, 3, 4)),
    ("timestamp", dt.datetime(2024, 1, 2, 3, 4, 5, 6)),
    ("timestamptz", dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc)),
    ("interval", dt.timedelta(days=3, seconds=4, microseconds=5)), ("json", '{"a": 1}'), ("jsonb", '{"a": 1}'),
    ("int4[]", [1, None, 3]), ("text[]", ["a", None, 'b"c']), ("uuid[]", []),
    ("numeric[]", [D("1.5")]), ("oid", 7), ("name", "n"), ("bpchar", "c"),
]


def run(schema, work):
    async def inside():
        ssl = os.environ.get("CLIENTS_SSL")
        connection = await asyncpg.connect(ADDRESS, server_settings={"search_path": schema}, ssl=ssl)
        try:
            await work(connection)
        finally:
            await connection.close()

    asyncio.run(inside())


def test_values_come_back(schema):
    async def work(connection):
        for name, value in VALUES:
            got = await connection.fetchval(f"SELECT $1::{name}", value)
            assert got == value, name
            assert await connection.fetchval(f"SELECT $1::{name}", None) is None, name
        columns = ", ".join(f"c{n} {name}" for n, (name, _) in enumerate(VALUES))
        await connection.execute(f"CREATE TABLE t (id serial PRIMARY KEY, {columns})")
        names = ", ".join(f"c{n}" for n in range(len(VALUES)))
        holes = ", ".join(f"${n + 1}" for n in range(len(VALUES)))
        values = [value for _, value in VALUES]
        await connection.execute(f"INSERT INTO t ({names}) VALUES ({holes})", *values)
        row = await connection.fetchrow(f"SELECT {names} FROM t")
        assert list(row.values()) == values
        await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        assert await connection.fetchval("SELECT $1::jsonb", {"x": [1]}) == {"x": [1]}

    run(schema, work)


def test_transactions_cursors_and_copy(schema):
    async def work(connection):
        await connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        tag = await connection.copy_records_to_table("t", records=[(n, str(n)) for n in range(1000)])
        assert tag == "COPY 1000"
        out = io.BytesIO()
        await connection.copy_from_query("SELECT * FROM t WHERE a < $1 ORDER BY a", 3, output=out, format="csv")
        assert out.getvalue() == b"0,0\n1,1\n2,2\n"
        async with connection.transaction():
            seen = [row["a"] async for row in connection.cursor("SELECT a FROM t ORDER BY a", prefetch=64)]
            assert seen == list(range(1000))
            cursor = await connection.cursor("SELECT a FROM t ORDER BY a")
            assert await cursor.forward(10) == 10
            assert (await cursor.fetchrow())["a"] == 10
        with pytest.raises(asyncpg.UniqueViolationError) as caught:
            async with connection.transaction():
                await connection.executemany("INSERT INTO t VALUES ($1, $2)", [(1001, "x"), (1, "y")])
        assert caught.value.constraint_name == "t_pkey"
        assert await connection.fetchval("SELECT count(*) FROM t") == 1000
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            assert await connection.fetchval("SELECT count(*) FROM t") == 1000
        statement = await connection.prepare("SELECT a, b FROM t WHERE a = $1")
        assert [attribute.name for attribute in statement.get_attributes()] == ["a", "b"]
        assert [parameter.name for parameter in statement.get_parameters()] == ["int4"]
        assert (await statement.fetchrow(5))["b"] == "5"
        with pytest.raises(asyncio.TimeoutError):
            await connection.fetchval("SELECT pg_sleep(60)", timeout=0.3)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.reset()
        await connection.reload_schema_state()

    run(schema, work)


def test_a_pool(schema):
    async def work(_):
        ssl = os.environ.get("CLIENTS_SSL")
        async with asyncpg.create_pool(ADDRESS, min_size=2, max_size=5, ssl=ssl) as pool:
            await pool.execute(f"CREATE TABLE {schema}.n (a int PRIMARY KEY, n int)")
            await pool.execute(f"INSERT INTO {schema}.n VALUES (1, 0)")
            await asyncio.gather(*(pool.execute(f"UPDATE {schema}.n SET n = n + 1") for _ in range(50)))
            assert await pool.fetchval(f"SELECT n FROM {schema}.n") == 50

    run(schema, work)
