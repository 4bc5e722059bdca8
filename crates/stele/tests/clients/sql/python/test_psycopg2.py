"""psycopg 2: the driver that most programs of the last decade use."""

import datetime as dt
import decimal
import io
import uuid

import psycopg2
import psycopg2.errors
import psycopg2.extensions
import psycopg2.extras
import psycopg2.pool
import pytest

psycopg2.extras.register_uuid()
D = decimal.Decimal


@pytest.fixture
def session(address):
    session = psycopg2.connect(address)
    yield session
    session.close()


def test_values_come_back(session):
    cursor = session.cursor()
    cursor.execute("""CREATE TABLE t (id serial PRIMARY KEY, a bool, b int, c bigint, d float8, e numeric,
        f text, g bytea, h uuid, i date, j time, k timestamp, l timestamptz, m interval, n int[], o text[],
        p jsonb)""")
    names = "abcdefghijklmnop"
    values = [True, 1, 2**40, 0.1, D("1.10"), "it's \\ €", b"\x00\xff", uuid.UUID(int=7),
              dt.date(2024, 2, 29), dt.time(1, 2, 3, 4), dt.datetime(2024, 1, 2, 3, 4, 5, 6),
              dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc), dt.timedelta(days=1, seconds=2),
              [1, None, 3], ["a", None, "b,\"c\""], psycopg2.extras.Json({"a": [1, None]})]
    holes = ", ".join(["%s"] * len(values))
    cursor.execute(f"INSERT INTO t ({', '.join(names)}) VALUES ({holes}) RETURNING id", values)
    assert cursor.fetchone() == (1,)
    cursor.execute("INSERT INTO t (a) VALUES (NULL)")
    cursor.execute(f"SELECT {', '.join(names)} FROM t ORDER BY id")
    row = list(cursor.fetchone())
    row[6] = bytes(row[6])
    assert row == values[:-1] + [{"a": [1, None]}]
    assert set(cursor.fetchone()) == {None}
    assert [column.type_code for column in cursor.description][:5] == [16, 23, 20, 701, 1700]


def test_transactions_and_errors(session):
    cursor = session.cursor()
    cursor.execute("CREATE TABLE t (a int PRIMARY KEY, b int CONSTRAINT positive CHECK (b > 0))")
    session.commit()
    with session, session.cursor() as other:
        other.execute("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(psycopg2.errors.UniqueViolation) as caught:
        cursor.execute("INSERT INTO t VALUES (1, 1)")
    assert caught.value.diag.constraint_name == "t_pkey"
    assert caught.value.pgcode == "23505"
    with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
        cursor.execute("SELECT 1")
    session.rollback()
    cursor.execute("SAVEPOINT s")
    with pytest.raises(psycopg2.errors.CheckViolation) as caught:
        cursor.execute("UPDATE t SET b = -1")
    assert caught.value.diag.constraint_name == "positive"
    cursor.execute("ROLLBACK TO SAVEPOINT s")
    cursor.execute("SELECT * FROM t")
    assert cursor.fetchall() == [(1, 1)]
    session.commit()
    session.set_session(isolation_level="REPEATABLE READ", readonly=True)
    with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
        cursor.execute("INSERT INTO t VALUES (2, 2)")
    session.rollback()
    session.set_session(autocommit=True, readonly=False)
    assert session.get_transaction_status() == psycopg2.extensions.TRANSACTION_STATUS_IDLE


def test_many_values_at_once(session):
    cursor = session.cursor()
    cursor.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    rows = [(n, f"text {n}") for n in range(1000)]
    got = psycopg2.extras.execute_values(
        cursor, "INSERT INTO t VALUES %s ON CONFLICT (a) DO NOTHING RETURNING a", rows, fetch=True)
    assert len(got) == 1000
    psycopg2.extras.execute_batch(cursor, "UPDATE t SET b = %s WHERE a = %s",
                                  [("new", n) for n in range(100)])
    cursor.execute("SELECT b, count(*) FROM t WHERE b IN %s GROUP BY b", (("new", "text 500"),))
    assert sorted(cursor.fetchall()) == [("new", 100), ("text 500", 1)]


def test_copy(session):
    cursor = session.cursor()
    cursor.execute("CREATE TABLE t (a int, b text)")
    cursor.copy_expert("COPY t FROM STDIN WITH (FORMAT csv, HEADER)", io.StringIO('a,b\n1,"x,y"\n2,\n'))
    cursor.copy_from(io.StringIO("3\tz\n4\t\\N\n"), "t", columns=("a", "b"))
    assert cursor.rowcount == 2
    out = io.StringIO()
    cursor.copy_to(out, "t")
    assert sorted(out.getvalue().splitlines()) == ["1\tx,y", "2\t\\N", "3\tz", "4\t\\N"]


def test_named_cursors_and_rows(session):
    cursor = session.cursor()
    cursor.execute("CREATE TABLE t AS SELECT g AS a, 'x' || g AS b FROM generate_series(1, 3000) g")
    with session.cursor("named", cursor_factory=psycopg2.extras.DictCursor) as named:
        named.itersize = 500
        named.execute("SELECT * FROM t ORDER BY a")
        assert [row["b"] for row in named] == [f"x{n}" for n in range(1, 3001)]
    with session.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as named:
        named.execute("SELECT * FROM t WHERE a = 7")
        assert named.fetchone() == {"a": 7, "b": "x7"}


def test_a_pool(address):
    pool = psycopg2.pool.ThreadedConnectionPool(1, 3, address)
    one, two = pool.getconn(), pool.getconn()
    assert one.info.backend_pid != two.info.backend_pid
    pool.putconn(one)
    pool.putconn(two)
    pool.closeall()
