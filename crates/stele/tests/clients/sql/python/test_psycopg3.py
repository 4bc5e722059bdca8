"""psycopg 3: types both ways, transactions, errors, COPY, cursors, pipelines, cancel."""

import datetime as dt
import decimal
import threading
import time
import uuid

import psycopg
import psycopg_pool
import pytest
from psycopg.types.json import Json, Jsonb

D = decimal.Decimal
UTC = dt.timezone.utc

VALUES = [
    ("bool", True),
    ("bool", False),
    ("smallint", -32768),
    ("integer", 2147483647),
    ("bigint", -9223372036854775808),
    ("real", 1.5),
    ("double precision", 0.1),
    ("double precision", float("inf")),
    ("numeric", D("123456789012345678901234567890.123456789")),
    ("numeric", D("-0.00001")),
    ("numeric", D("0")),
    ("numeric(10,2)", D("12.50")),
    ("text", "naïve 'quoted' \\ text €"),
    ("text", ""),
    ("varchar(10)", "short"),
    ("bytea", bytes(range(256))),
    ("bytea", b""),
    ("uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("date", dt.date(2024, 2, 29)),
    ("date", dt.date(1, 1, 1)),
    ("time", dt.time(23, 59, 59, 999999)),
    ("timestamp", dt.datetime(1999, 12, 31, 23, 59, 59, 123456)),
    ("timestamptz", dt.datetime(2024, 6, 1, 12, 0, tzinfo=UTC)),
    ("interval", dt.timedelta(days=-3, seconds=5, microseconds=7)),
    ("integer[]", [1, None, 3]),
    ("text[]", ["a", "b,c", '"quoted"', "", None, "NULL"]),
    ("integer[]", []),
    ("numeric[]", [D("1.5"), None]),
    ("uuid[]", [uuid.UUID(int=1)]),
    ("timestamptz[]", [dt.datetime(2024, 6, 1, tzinfo=UTC)]),
    ("bytea[]", [b"\x00\x01"]),
]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("name", "value"), VALUES)
def test_values_come_back_as_they_went(connection, name, value, binary):
    cursor = connection.cursor(binary=binary)
    form = "%b" if binary and not isinstance(value, list) else "%s"
    connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {name})")
    cursor.execute(f"INSERT INTO t VALUES (1, {form}), (2, NULL)", [value])
    assert cursor.execute("SELECT v FROM t ORDER BY id").fetchall() == [(value,), (None,)]
    assert cursor.execute(f"SELECT {form}::{name}", [value]).fetchone() == (value,)
    if value != float("inf") and name != "integer[]":
        assert cursor.execute(f"SELECT id FROM t WHERE v = {form}", [value]).fetchall() == [(1,)]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("wrap", [Json, Jsonb])
def test_json_comes_back(connection, wrap, binary):
    name = wrap.__name__.lower()
    value = {"a": [1, 2.5, None, True], "b": {"c": "€"}}
    connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {name})")
    cursor = connection.cursor(binary=binary)
    cursor.execute("INSERT INTO t VALUES (1, %s)", [wrap(value)])
    assert cursor.execute("SELECT v FROM t").fetchone() == (value,)
    assert cursor.execute("SELECT v -> 'b' ->> 'c' FROM t").fetchone() == ("€",)


def test_results_name_their_types(connection):
    connection.execute("CREATE TABLE t (a int, b numeric(8,3), c varchar(7), d timestamptz[])")
    described = connection.execute("SELECT a, b, c, d, a + 1 AS e FROM t").description
    assert [column.name for column in described] == ["a", "b", "c", "d", "e"]
    assert [column.type_code for column in described] == [23, 1700, 1043, 1185, 23]
    assert (described[1].precision, described[1].scale) == (8, 3)
    assert described[2].display_size == 7


def test_columns_name_their_table(connection):
    connection.execute("CREATE TABLE t (a int primary key, b text)")
    oid = connection.execute("SELECT 't'::regclass::oid").fetchone()[0]
    for query, origins in [
        ("SELECT a, b, a + 1 FROM t", [(oid, 1), (oid, 2), (0, 0)]),
        ("SELECT b FROM t WHERE a = 1", [(oid, 2)]),
        ("SELECT x.b, y.a, count(*) FROM t x JOIN t y USING (a) GROUP BY 1, 2",
         [(oid, 2), (oid, 1), (0, 0)]),
        ("INSERT INTO t VALUES (1, 'x') RETURNING b", [(oid, 2)]),
    ]:
        result = connection.execute(query).pgresult
        got = [(result.ftable(i), result.ftablecol(i)) for i in range(result.nfields)]
        assert got == origins, query


def test_parameters_of_unknown_type_get_their_places_type(connection):
    connection.execute("CREATE TABLE t (a int, b numeric, c text, d date)")
    connection.execute("INSERT INTO t VALUES (%s, %s, %s, %s)", ["1", "2.5", "x", "2024-01-01"])
    row = connection.execute("SELECT * FROM t WHERE a = %s AND c = %s", [1, "x"]).fetchone()
    assert row == (1, D("2.5"), "x", dt.date(2024, 1, 1))
    assert connection.execute("SELECT a FROM t WHERE a = ANY(%s)", [[1, 2]]).fetchall() == [(1,)]
    assert connection.execute("SELECT a FROM t LIMIT %s OFFSET %s", [1, 0]).fetchall() == [(1,)]


def test_a_transaction_rolls_back_and_commits(address):
    with psycopg.connect(address) as connection, psycopg.connect(address) as other:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
        connection.commit()
        connection.execute("INSERT INTO t VALUES (1)")
        connection.rollback()
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (2)")
            with pytest.raises(psycopg.errors.UniqueViolation):
                with connection.transaction():
                    connection.execute("INSERT INTO t VALUES (2)")
            connection.execute("INSERT INTO t VALUES (3)")
            assert other.execute("SELECT count(*) FROM t").fetchone() == (0,)
        connection.commit()
        other.rollback()
        assert other.execute("SELECT a FROM t ORDER BY a").fetchall() == [(2,), (3,)]


def test_repeatable_read_refuses_a_lost_update(address):
    with psycopg.connect(address) as one, psycopg.connect(address) as two:
        one.execute("CREATE TABLE t (a int PRIMARY KEY, n int)")
        one.execute("INSERT INTO t VALUES (1, 0)")
        one.commit()
        for session in (one, two):
            session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            session.execute("SELECT n FROM t").fetchone()
        one.execute("UPDATE t SET n = n + 1")
        one.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            two.execute("UPDATE t SET n = n + 1")


def test_errors_tell_state_and_names(connection, schema):
    connection.execute("""CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL, c int CHECK (c > 0),
        CONSTRAINT t_b UNIQUE (b))""")
    connection.execute("INSERT INTO t VALUES (1, 'x', 1)")
    connection.commit()
    for statement, kind, constraint, column in [
        ("INSERT INTO t VALUES (1, 'y', 1)", psycopg.errors.UniqueViolation, "t_pkey", None),
        ("INSERT INTO t VALUES (2, 'x', 1)", psycopg.errors.UniqueViolation, "t_b", None),
        ("INSERT INTO t VALUES (2, NULL, 1)", psycopg.errors.NotNullViolation, None, "b"),
        ("INSERT INTO t VALUES (2, 'y', 0)", psycopg.errors.CheckViolation, "t_c_check", None),
        ("UPDATE t SET c = -1", psycopg.errors.CheckViolation, "t_c_check", None),
    ]:
        with pytest.raises(kind) as caught:
            connection.execute(statement)
        diagnosed = caught.value.diag
        assert diagnosed.constraint_name == constraint, statement
        assert diagnosed.column_name == column, statement
        assert (diagnosed.schema_name, diagnosed.table_name) == (schema, "t"), statement
        connection.rollback()
    for statement, kind in [
        ("SELEC 1", psycopg.errors.SyntaxError),
        ("SELECT * FROM nothing", psycopg.errors.UndefinedTable),
        ("SELECT nothing FROM t", psycopg.errors.UndefinedColumn),
        ("SELECT nothing(1)", psycopg.errors.UndefinedFunction),
        ("SELECT 1 / 0", psycopg.errors.DivisionByZero),
        ("SELECT 2147483647 + 1", psycopg.errors.NumericValueOutOfRange),
        ("SELECT 'x'::int", psycopg.errors.InvalidTextRepresentation),
        ("SELECT '2024-02-30'::date", psycopg.errors.DatetimeFieldOverflow),
        ("CREATE TABLE t (a int)", psycopg.errors.DuplicateTable),
        ("INSERT INTO t (a, a) VALUES (1, 2)", psycopg.errors.DuplicateColumn),
        ("SELECT a FROM t GROUP BY b", psycopg.errors.GroupingError),
        ("INSERT INTO t VALUES (5, 6, 7, 8)", psycopg.errors.SyntaxError),
        ("SELECT a FROM t WHERE a", psycopg.errors.DatatypeMismatch),
    ]:
        with pytest.raises(kind):
            connection.execute(statement)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()


def test_prepared_statements_live_through_changes_of_the_schema(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        connection.execute("INSERT INTO t VALUES (1, 'x')")
        connection.execute("PREPARE one (int) AS SELECT a, b FROM t WHERE a = $1")
        connection.execute("PREPARE whole (text) AS SELECT * FROM t WHERE b = $1")
        assert connection.execute("EXECUTE one(1)").fetchone() == (1, "x")
        connection.execute("CREATE INDEX ON t (b)")
        assert connection.execute("EXECUTE whole('x')").fetchone() == (1, "x")
        connection.execute("ALTER TABLE t ADD COLUMN c int DEFAULT 7")
        assert connection.execute("EXECUTE one(1)").fetchone() == (1, "x")
        with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
            connection.execute("EXECUTE whole('x')")
        assert "cached plan must not change result type" in str(caught.value)
        connection.execute("DROP TABLE t")
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("EXECUTE one(1)")


def test_executemany_and_a_pipeline(connection):
    connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(n, str(n)) for n in range(500)])
    assert cursor.rowcount == 500
    cursor.executemany("INSERT INTO t VALUES (%s, %s) RETURNING a",
                       [(n, "r") for n in (600, 601)], returning=True)
    got = [cursor.fetchone()[0]]
    while cursor.nextset():
        got.append(cursor.fetchone()[0])
    assert got == [600, 601]
    with connection.pipeline():
        one = connection.execute("SELECT count(*) FROM t")
        two = connection.execute("UPDATE t SET b = 'x' WHERE a < %s", [10])
        three = connection.execute("SELECT count(*) FROM t WHERE b = 'x'")
    assert one.fetchone() == (502,)
    assert two.rowcount == 10
    assert three.fetchone() == (10,)


def test_an_error_in_a_pipeline_ends_it(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
        with pytest.raises(psycopg.errors.UniqueViolation):
            with connection.pipeline():
                connection.execute("INSERT INTO t VALUES (1)")
                connection.execute("INSERT INTO t VALUES (1)")
                connection.execute("INSERT INTO t VALUES (2)")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_server_side_cursors(connection):
    connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
    connection.execute("INSERT INTO t SELECT g FROM generate_series(1, 5000) g")
    with connection.cursor(name="ahead") as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT a FROM t WHERE a > %s ORDER BY a", [10])
        assert [row[0] for row in cursor] == list(range(11, 5001))
    with connection.cursor(name="held", withhold=True) as cursor:
        cursor.execute("SELECT a FROM t ORDER BY a")
        assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
        connection.commit()
        assert cursor.fetchone() == (4,)
        cursor.scroll(10)
        assert cursor.fetchone() == (15,)


@pytest.mark.parametrize("size", [0, 1, 100])
def test_rows_are_streamed(connection, size):
    cursor = connection.cursor()
    query = "SELECT g, repeat('x', 100) FROM generate_series(1, 20000) g"
    rows = cursor.stream(query, size=size) if size else cursor.stream(query)
    assert sum(row[0] for row in rows) == 20000 * 20001 // 2


@pytest.mark.parametrize("format", ["text", "csv", "binary"])
def test_copy_gives_back_what_it_took(connection, format):
    connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text, c numeric, d bytea, e int[], f timestamptz)")
    rows = [(n, None if n % 7 == 0 else f"l\t{n}\\\n\"'", D(n) / 4, bytes([n % 256]), [n, None],
             dt.datetime(2024, 1, 1, tzinfo=UTC) + dt.timedelta(hours=n)) for n in range(1000)]
    with connection.cursor() as cursor:
        if format == "csv":
            for n, row in enumerate(rows):
                cursor.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s, %s)", row)
        else:
            with cursor.copy(f"COPY t FROM STDIN (FORMAT {format})") as copy:
                copy.set_types(["int4", "text", "numeric", "bytea", "int4[]", "timestamptz"])
                for row in rows:
                    copy.write_row(row)
            assert cursor.rowcount == 1000
        assert cursor.execute("SELECT * FROM t ORDER BY a").fetchall() == rows
        with cursor.copy(f"COPY (SELECT * FROM t ORDER BY a) TO STDOUT (FORMAT {format})") as copy:
            data = b"".join(copy)
        cursor.execute("CREATE TABLE u AS SELECT * FROM t WHERE false")
        with cursor.copy(f"COPY u FROM STDIN (FORMAT {format})") as copy:
            copy.write(data)
        assert cursor.execute("SELECT * FROM u ORDER BY a").fetchall() == rows


def test_a_copy_that_fails_leaves_nothing(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation) as caught:
            with connection.cursor().copy("COPY t FROM STDIN") as copy:
                copy.write("1\tx\nnone\ty\n")
        assert caught.value.diag.context == 'COPY t, line 2, column a: "none"'
        with pytest.raises(psycopg.errors.UniqueViolation):
            with connection.cursor().copy("COPY t FROM STDIN") as copy:
                copy.write("1\tx\n1\ty\n")
        with pytest.raises(RuntimeError):
            with connection.cursor().copy("COPY t FROM STDIN") as copy:
                copy.write("1\tx\n")
                raise RuntimeError("the client gives up")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_cancel_ends_a_statement(address):
    with psycopg.connect(address, autocommit=True) as connection:
        for query in ["SELECT pg_sleep(60)"]:
            timer = threading.Timer(0.3, connection.cancel_safe)
            timer.start()
            started = time.monotonic()
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute(query)
            timer.join()
            assert time.monotonic() - started < 20
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_statement_has_a_timeout(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET statement_timeout = '200ms'")
        with pytest.raises(psycopg.errors.QueryCanceled) as caught:
            connection.execute("SELECT pg_sleep(60)")
        assert "statement timeout" in str(caught.value)
        connection.execute("SET statement_timeout = 0")
        with connection.transaction():
            connection.execute("SET LOCAL statement_timeout = '1h'")
            assert connection.execute("SHOW statement_timeout").fetchone() == ("1h",)


def test_locks_wait_and_time_out(address):
    with psycopg.connect(address) as one, psycopg.connect(address) as two:
        one.execute("CREATE TABLE t (a int PRIMARY KEY, b int)")
        one.execute("INSERT INTO t VALUES (1, 0), (2, 0)")
        one.commit()
        one.execute("SELECT * FROM t WHERE a = 1 FOR UPDATE").fetchall()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            two.execute("SELECT * FROM t WHERE a = 1 FOR UPDATE NOWAIT")
        two.rollback()
        two.execute("SET lock_timeout = '100ms'")
        two.commit()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            two.execute("UPDATE t SET b = 1 WHERE a = 1")
        two.rollback()
        skipped = two.execute("SELECT a FROM t ORDER BY a FOR UPDATE SKIP LOCKED").fetchall()
        assert skipped == [(2,)]
        two.rollback()
        one.commit()


def test_a_deadlock_ends_one_of_two(address):
    with psycopg.connect(address) as one, psycopg.connect(address) as two:
        one.execute("CREATE TABLE t (a int PRIMARY KEY, b int)")
        one.execute("INSERT INTO t VALUES (1, 0), (2, 0)")
        one.commit()
        one.execute("UPDATE t SET b = 1 WHERE a = 1")
        two.execute("UPDATE t SET b = 1 WHERE a = 2")
        outcomes = []

        def work(session, key):
            try:
                session.execute("UPDATE t SET b = 2 WHERE a = %s", [key])
                session.commit()
                outcomes.append("done")
            except psycopg.errors.DeadlockDetected:
                session.rollback()
                outcomes.append("deadlock")

        threads = [threading.Thread(target=work, args=pair) for pair in ((one, 2), (two, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["deadlock", "done"]


def test_a_pool_of_connections(address):
    with psycopg_pool.ConnectionPool(address, min_size=2, max_size=4) as pool:
        with pool.connection() as connection:
            connection.execute("CREATE TABLE t (a int PRIMARY KEY, n int)")
            connection.execute("INSERT INTO t VALUES (1, 0)")

        def work():
            for _ in range(25):
                with pool.connection() as connection:
                    connection.execute("UPDATE t SET n = n + 1 WHERE a = 1")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pool.connection() as connection:
            assert connection.execute("SELECT n FROM t").fetchone() == (100,)


def test_notices_and_settings_reach_the_client(connection):
    notices = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    connection.execute("DROP TABLE IF EXISTS nothing_of_this_name")
    assert notices == ['table "nothing_of_this_name" does not exist, skipping']
    connection.execute("SET TIME ZONE 'Europe/Berlin'")
    assert connection.info.parameter_status("TimeZone") == "Europe/Berlin"
    moment = connection.execute("SELECT '2024-07-01 12:00+00'::timestamptz").fetchone()[0]
    assert moment.isoformat() == "2024-07-01T14:00:00+02:00"
    assert connection.info.server_version >= 150000
    assert connection.info.parameter_status("standard_conforming_strings") == "on"


def test_named_rows_and_many_results(connection):
    connection.row_factory = psycopg.rows.dict_row
    cursor = connection.execute("SELECT 1 AS a; SELECT 'x' AS b; SELECT 2.5 AS c")
    got = [cursor.fetchone()]
    while cursor.nextset():
        got.append(cursor.fetchone())
    assert got == [{"a": 1}, {"b": "x"}, {"c": D("2.5")}]


def test_identity_and_returning(connection):
    connection.execute("""CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        s serial, v text DEFAULT 'd')""")
    got = connection.execute("INSERT INTO t (v) VALUES ('x'), (DEFAULT) RETURNING id, s, v").fetchall()
    assert got == [(1, 1, "x"), (2, 2, "d")]
    with pytest.raises(psycopg.errors.GeneratedAlways):
        connection.execute("INSERT INTO t (id) VALUES (9)")
    connection.rollback()
    connection.execute("CREATE SEQUENCE q START 5 INCREMENT BY 5")
    assert connection.execute("SELECT nextval('q'), nextval('q'), currval('q')").fetchone() == (5, 10, 10)
    connection.execute("ALTER SEQUENCE q RESTART WITH 100")
    assert connection.execute("SELECT nextval('q')").fetchone() == (100,)
    assert connection.execute("SELECT setval('q', 7), nextval('q')").fetchone() == (7, 12)
