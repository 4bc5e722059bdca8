"""Fixtures. The suite runs in two phases, on one data directory:

- CLIENTS_PHASE=first: everything; the tables of the fixtures below are made and filled.
- CLIENTS_PHASE=again: tests marked `lasting`, after the server was killed and restarted. They
  only read what the first phase left.
- CLIENTS_PHASE=other: reads of what the suite of another language wrote, named by
  CLIENTS_TABLE as INSTANCE/TABLE.
"""

import itertools
import os

import pytest

import clients

PHASE = os.environ["CLIENTS_PHASE"]


def pytest_configure(config):
    config.addinivalue_line("markers", "lasting: holds after a restart of the server, too")
    config.addinivalue_line("markers", "other: reads what another client wrote")


def pytest_collection_modifyitems(config, items):
    wanted = {"first": None, "again": "lasting", "other": "other"}[PHASE]
    keep, drop = [], []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        fits = "other" not in marks if wanted is None else wanted in marks
        (keep if fits else drop).append(item)
    config.hook.pytest_deselected(items=drop)
    items[:] = keep


@pytest.fixture(scope="session")
def stub():
    return clients.open_stub()


@pytest.fixture(scope="session")
def first():
    """Whether tables are to be filled."""
    return PHASE == "first"


@pytest.fixture(scope="session")
def admin():
    return clients.Admin()


@pytest.fixture(scope="session", params=clients.KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def client(kind):
    client = clients.open_data_client(kind)
    yield client
    client.close()


_numbers = itertools.count(1)


@pytest.fixture
def new_table(admin, client):
    """Makes a table of its own for a test and gives it open."""

    def make(families, splits=()):
        name = f"t{next(_numbers)}"
        admin.create(name, families, splits)
        return client.table(name)

    return make
