"""TLS and passwords: psycopg 2 and 3, asyncpg and SQLAlchemy."""

import asyncio
import os
import ssl

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy

ADDRESS = os.environ["CLIENTS_SQL"].split("?")[0].replace("127.0.0.1", "localhost")
CA = os.environ.get("CLIENTS_CA")
PASSWORD = os.environ.get("CLIENTS_PASSWORD")
VERIFIED = f"{ADDRESS}?sslmode=verify-full&sslrootcert={CA}"

pytestmark = pytest.mark.skipif(CA is None, reason="the server has no certificate")


def test_first_the_owner_gets_a_password():
    with psycopg.connect(VERIFIED, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE stele PASSWORD '{PASSWORD}'")
        assert connection.info.parameter_status("server_version").startswith("15.")
        assert connection.pgconn.ssl_in_use


def test_the_right_password_lets_in():
    for driver in (psycopg, psycopg2):
        connection = driver.connect(VERIFIED, password=PASSWORD)
        cursor = connection.cursor()
        cursor.execute("SELECT current_user")
        assert cursor.fetchone() == ("stele",)
        connection.close()


@pytest.mark.parametrize("password", ["wrong", ""])
def test_another_password_does_not(password):
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(VERIFIED, password=password)


def test_without_tls_the_server_refuses():
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(f"{ADDRESS}?sslmode=disable", password=PASSWORD)


def test_asyncpg_signs_in():
    async def work():
        context = ssl.create_default_context(cafile=CA)
        connection = await asyncpg.connect(ADDRESS, password=PASSWORD, ssl=context)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()

    asyncio.run(work())


def test_sqlalchemy_signs_in():
    url = sqlalchemy.make_url(VERIFIED).set(drivername="postgresql+psycopg", password=PASSWORD)
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT 1")) == 1
    engine.dispose()
