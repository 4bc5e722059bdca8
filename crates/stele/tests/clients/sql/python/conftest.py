"""The server that the tests of SQL clients talk to, from the environment.

`CLIENTS_SQL` is an address as libpq takes it. Each test has a schema of its own, which is made before
and dropped after it.
"""

import os
import uuid

import psycopg
import pytest

ADDRESS = os.environ["CLIENTS_SQL"]


@pytest.fixture
def schema():
    """The name of a new schema."""
    name = "s" + uuid.uuid4().hex[:12]
    with psycopg.connect(ADDRESS, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield name
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def address(schema):
    """An address whose sessions look for tables in the test's schema."""
    mark = "&" if "?" in ADDRESS else "?"
    return f"{ADDRESS}{mark}options=-csearch_path%3D{schema}"


@pytest.fixture
def connection(address):
    """A connection of psycopg 3, in its usual mode."""
    with psycopg.connect(address) as connection:
        yield connection
