"""The reads that all client libraries make alike."""

import os

import pytest

import clients
import scenario


@pytest.fixture(scope="module")
def filled(admin, client, kind, first):
    name = f"scenario-{kind}"
    if first:
        admin.create(name, scenario.SCENARIO["families"], map(scenario.raw, scenario.SCENARIO["splits"]))
        client.table(name).bulk_mutate_rows(list(scenario.entries()))
    return name


def check(read, stub, client, admin, name):
    if read.get("reversed"):
        got = scenario.read_reversed(stub, admin.name(name), read)
    else:
        got = scenario.lines(client.table(name, admin.instance_id).read_rows(scenario.query(read)))
    assert got == read["want"]


@pytest.mark.lasting
@pytest.mark.parametrize("read", scenario.READS, ids=lambda read: read["name"])
def test_read(read, stub, client, admin, filled):
    check(read, stub, client, admin, filled)


@pytest.mark.other
@pytest.mark.parametrize("read", scenario.READS, ids=lambda read: read["name"])
def test_read_of_what_another_client_wrote(read, stub, client):
    instance, name = os.environ["CLIENTS_TABLE"].split("/")
    check(read, stub, client, clients.Admin(instance), name)
