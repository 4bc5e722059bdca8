"""The official clients, ready to use against the server that BIGTABLE_EMULATOR_HOST names, or, by TLS
and signed in with the key file that CLIENTS_KEY_FILE names, the one at CLIENTS_ENDPOINT.

The synchronous and the asynchronous data client get one face here, so that every test runs over
both: `open_data_client("sync")` and `open_data_client("async")`.
"""

import asyncio
import datetime
import os

import grpc
from google.api_core.client_options import ClientOptions
from google.cloud import bigtable
from google.cloud.bigtable.data import BigtableDataClient, BigtableDataClientAsync
from google.cloud.bigtable_admin_v2 import types as admin_types
from google.cloud.bigtable_v2 import BigtableClient
from google.cloud.bigtable_v2.services.bigtable.transports import BigtableGrpcTransport
from google.oauth2 import service_account

PROJECT = "stele-tests"
INSTANCE = "python"
KINDS = ("sync", "async")


def sign_in():
    """Returns the options of a client that bring it to the server."""
    if "CLIENTS_ENDPOINT" not in os.environ:
        return {}
    read = service_account.Credentials.from_service_account_file
    credentials = read(os.environ["CLIENTS_KEY_FILE"]).with_always_use_jwt_access(True)
    options = ClientOptions(api_endpoint=os.environ["CLIENTS_ENDPOINT"])
    return {"credentials": credentials, "client_options": options}


class SyncClient:
    """Tables of the synchronous client."""

    kind = "sync"

    def __init__(self):
        self._client = BigtableDataClient(project=PROJECT, **sign_in())

    def table(self, name, instance=INSTANCE):
        return self._client.get_table(instance, name)

    def query(self, text, **options):
        """All rows of a query."""
        return list(self._client.execute_query(text, INSTANCE, **options))

    def close(self):
        self._client.close()


class AsyncClient:
    """Tables of the asynchronous client; each call runs to its end on a loop of its own."""

    kind = "async"

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._client = self._loop.run_until_complete(self._open())

    async def _open(self):
        return BigtableDataClientAsync(project=PROJECT, **sign_in())

    def table(self, name, instance=INSTANCE):
        async def get():
            return self._client.get_table(instance, name)

        return AsyncTable(self._loop, self._loop.run_until_complete(get()))

    def query(self, text, **options):
        async def collect():
            rows = await self._client.execute_query(text, INSTANCE, **options)
            return [row async for row in rows]

        return self._loop.run_until_complete(collect())

    def close(self):
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


class AsyncTable:
    """An asynchronous table whose methods wait."""

    def __init__(self, loop, table):
        self._loop = loop
        self._table = table

    def __getattr__(self, name):
        method = getattr(self._table, name)
        if not callable(method):
            return method

        def call(*args, **kwargs):
            return self._loop.run_until_complete(method(*args, **kwargs))

        return call

    def read_rows_stream(self, query):
        async def collect():
            return [row async for row in await self._table.read_rows_stream(query)]

        return self._loop.run_until_complete(collect())

    def write_with_batcher(self, entries):
        async def write():
            async with self._table.mutations_batcher() as batcher:
                for entry in entries:
                    await batcher.append(entry)

        self._loop.run_until_complete(write())


def open_stub():
    """Opens the generated stub of the data service."""
    options = sign_in()
    if not options:
        channel = grpc.insecure_channel(os.environ["BIGTABLE_EMULATOR_HOST"])
        options = {"transport": BigtableGrpcTransport(channel=channel)}
    return BigtableClient(**options)


def open_data_client(kind):
    return SyncClient() if kind == "sync" else AsyncClient()


def write_with_batcher(table, entries):
    if isinstance(table, AsyncTable):
        return table.write_with_batcher(entries)
    with table.mutations_batcher() as batcher:
        for entry in entries:
            batcher.append(entry)


class Admin:
    """The admin client, with the names of this suite filled in."""

    def __init__(self, instance=INSTANCE):
        self.classic = bigtable.Client(project=PROJECT, admin=True, **sign_in())
        self.stub = self.classic.table_admin_client
        self.instance_id = instance
        self.parent = f"projects/{PROJECT}/instances/{instance}"

    def name(self, table):
        return f"{self.parent}/tables/{table}"

    def create(self, table, families, splits=()):
        """Creates a table; `families` is a list of names, or a dict of names and messages."""
        if not isinstance(families, dict):
            families = {name: {} for name in families}
        return self.stub.create_table(
            request={
                "parent": self.parent,
                "table_id": table,
                "table": {"column_families": families},
                "initial_splits": [{"key": key} for key in splits],
            }
        )

    def get(self, table):
        view = admin_types.Table.View.FULL
        return self.stub.get_table(request={"name": self.name(table), "view": view})

    def modify(self, table, *modifications):
        return self.stub.modify_column_families(
            request={"name": self.name(table), "modifications": list(modifications)}
        )

    def undelete(self, table):
        """Brings a deleted table back."""
        return self.stub.undelete_table(request={"name": self.name(table)}).result(timeout=60)

    def back_up(self, table, backup):
        """Makes a backup that expires in a day."""
        expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
        operation = self.stub.create_backup(
            request={
                "parent": f"{self.parent}/clusters/stele",
                "backup_id": backup,
                "backup": {"source_table": self.name(table), "expire_time": expires},
            }
        )
        return operation.result(timeout=60)

    def restore(self, backup, table):
        """Creates a table from a backup."""
        tables = self.classic.instance(self.instance_id)
        return tables.table("any").restore(table, backup_name=backup).result(timeout=60)

    def names(self):
        return [table.name for table in self.stub.list_tables(parent=self.parent)]
