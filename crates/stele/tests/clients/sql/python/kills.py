"""The client program of `kills.rs`, by psycopg 3 or by SQLAlchemy: `kills.py psycopg` or `kills.py sqlalchemy`.

Environment variables tell the program what to do; `kills.rs` describes them and the record of a session.
"""

import os
import sys
import threading
import traceback

import psycopg
import sqlalchemy as sa

ADDRESS = os.environ["CLIENTS_SQL"]
DIR = os.environ["CLIENTS_DIR"]
ACCOUNTS = int(os.environ["CLIENTS_ACCOUNTS"])
BALANCE = int(os.environ["CLIENTS_BALANCE"])
SESSIONS = int(os.environ["CLIENTS_SESSIONS"])
TRANSACTIONS = int(os.environ["CLIENTS_TRANSACTIONS"])


class Lost(Exception):
    """The connection was lost."""


class Refused(Exception):
    """The server refused a transaction. The argument is the SQLSTATE."""


class Psycopg:
    """A session of psycopg 3."""

    def __init__(self, session):
        self.session = session
        try:
            self.connection = psycopg.connect(ADDRESS)
        except psycopg.OperationalError as error:
            raise Lost from error
        if session % 2:
            self.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    def create(self):
        with self.connection.transaction():
            self.connection.execute("CREATE SCHEMA bank")
            self.connection.execute(
                """CREATE TABLE bank.accounts (id bigint PRIMARY KEY,
                   balance bigint NOT NULL CHECK (balance >= 0), changes bigint NOT NULL DEFAULT 0)""")
            self.connection.execute(
                """CREATE TABLE bank.ledger (session int, number int,
                   debit bigint NOT NULL REFERENCES bank.accounts,
                   credit bigint NOT NULL REFERENCES bank.accounts,
                   amount bigint NOT NULL CHECK (amount > 0), token text NOT NULL UNIQUE,
                   PRIMARY KEY (session, number))""")
            self.connection.execute("CREATE INDEX ledger_debit ON bank.ledger (debit)")
            with self.connection.cursor() as cursor:
                cursor.executemany("INSERT INTO bank.accounts VALUES (%s, %s)",
                                   [(account, BALANCE) for account in range(1, ACCOUNTS + 1)])

    def transfer(self, number, debit, credit, amount, before_commit):
        change = "UPDATE bank.accounts SET balance = balance + %s, changes = changes + 1 WHERE id = %s"
        try:
            with self.connection.transaction():
                self.connection.execute(change, (-amount, debit))
                self.connection.execute(change, (amount, credit))
                self.connection.execute(
                    "INSERT INTO bank.ledger VALUES (%s, %s, %s, %s, %s, %s)",
                    (self.session, number, debit, credit, amount, f"{self.session}-{number}"))
                before_commit()
        except psycopg.Error as error:
            if self.connection.broken:
                raise Lost from error
            raise Refused(error.sqlstate) from error

    def holds(self, number):
        look = "SELECT count(*) FROM bank.ledger WHERE session = %s AND number = %s"
        with self.connection.transaction():
            return self.connection.execute(look, (self.session, number)).fetchone() == (1,)

    def accounts(self):
        return self.connection.execute("SELECT id, balance, changes FROM bank.accounts").fetchall()

    def ledger(self, column=None, value=None):
        """Returns the rows of the ledger, of which a column may have to have a value."""
        query = "SELECT session, number, debit, credit, amount, token FROM bank.ledger"
        if column:
            return self.connection.execute(f"{query} WHERE {column} = %s", (value,)).fetchall()
        return self.connection.execute(query).fetchall()


METADATA = sa.MetaData(schema="bank")
ACCOUNT = sa.Table(
    "accounts", METADATA,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("balance", sa.BigInteger, sa.CheckConstraint("balance >= 0"), nullable=False),
    sa.Column("changes", sa.BigInteger, nullable=False, server_default="0"),
)
LEDGER = sa.Table(
    "ledger", METADATA,
    sa.Column("session", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("debit", sa.ForeignKey(ACCOUNT.c.id), nullable=False, index=True),
    sa.Column("credit", sa.ForeignKey(ACCOUNT.c.id), nullable=False),
    sa.Column("amount", sa.BigInteger, sa.CheckConstraint("amount > 0"), nullable=False),
    sa.Column("token", sa.Text, nullable=False, unique=True),
)


class SqlAlchemy:
    """A session of SQLAlchemy, whose engine keeps connections in a pool."""

    url = ADDRESS.replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(url, pool_size=SESSIONS)

    def __init__(self, session):
        self.session = session
        level = "REPEATABLE READ" if session % 2 else "READ COMMITTED"
        self.of_session = self.engine.execution_options(isolation_level=level)

    def create(self):
        with self.of_session.begin() as connection:
            connection.execute(sa.schema.CreateSchema("bank"))
            METADATA.create_all(connection)
            accounts = [{"id": account, "balance": BALANCE} for account in range(1, ACCOUNTS + 1)]
            connection.execute(ACCOUNT.insert(), accounts)

    def transfer(self, number, debit, credit, amount, before_commit):
        def change(account, by):
            values = {"balance": ACCOUNT.c.balance + by, "changes": ACCOUNT.c.changes + 1}
            return ACCOUNT.update().where(ACCOUNT.c.id == account).values(values)

        try:
            with self.of_session.begin() as connection:
                connection.execute(change(debit, -amount))
                connection.execute(change(credit, amount))
                connection.execute(LEDGER.insert().values(
                    session=self.session, number=number, debit=debit, credit=credit, amount=amount,
                    token=f"{self.session}-{number}"))
                before_commit()
        except sa.exc.DBAPIError as error:
            # A pool that cannot connect says no SQLSTATE either.
            if error.connection_invalidated or error.orig.sqlstate is None:
                raise Lost from error
            raise Refused(error.orig.sqlstate) from error

    def holds(self, number):
        look = sa.select(sa.func.count()).select_from(LEDGER)
        look = look.where(LEDGER.c.session == self.session, LEDGER.c.number == number)
        with self.of_session.connect() as connection:
            return connection.scalar(look) == 1

    def accounts(self):
        with self.of_session.connect() as connection:
            return connection.execute(sa.select(ACCOUNT)).all()

    def ledger(self, column=None, value=None):
        """Returns the rows of the ledger, of which a column may have to have a value."""
        query = sa.select(LEDGER)
        if column:
            query = query.where(LEDGER.c[column] == value)
        with self.of_session.connect() as connection:
            return connection.execute(query).all()


class Record:
    """The record of a session: a line a step, which is in the file when `note` returns."""

    def __init__(self, session):
        self.path = os.path.join(DIR, f"record-{session}")
        self.file = open(self.path, "a", buffering=1)

    def note(self, word, number, *values):
        self.file.write(" ".join(map(str, (word, number, *values))) + "\n")

    def last(self):
        """Returns word and number of the last line."""
        with open(self.path) as file:
            lines = file.read().splitlines()
        word, number = lines[-1].split()[:2] if lines else ("done", "0")
        return word, int(number)


def first_number(client, record):
    """Returns the number of the session's next transfer, after a look at one without an answer."""
    word, number = record.last()
    if word != "begin":
        return number + 1
    if client.holds(number):
        record.note("found", number)
        return number + 1
    record.note("missing", number)
    return number


def transfer(client, record, session, number):
    """Makes a transfer, with as many tries as it takes, unless it is against a constraint."""
    debit = 1 + (7 * session + 3 * number) % ACCOUNTS
    credit = 1 + (debit + number % (ACCOUNTS - 1)) % ACCOUNTS
    amount = 1 + (13 * number + session) % 60
    while True:
        try:
            client.transfer(number, debit, credit, amount,
                            lambda: record.note("begin", number, debit, credit, amount))
            record.note("done", number)
            return
        except Refused as error:
            record.note("refused", number)
            if error.args[0] == "23514":
                return
            if error.args[0] not in ("40001", "40P01"):
                raise


def work_as(driver, session, failures):
    """Works as one session until all is done or the connection is lost."""
    try:
        client, record = driver(session), Record(session)
        first = first_number(client, record)
        for number in range(first, first + TRANSACTIONS):
            transfer(client, record, session, number)
    except Lost:
        pass
    except BaseException:
        failures.append(traceback.format_exc())


def work(driver):
    failures = []
    threads = [threading.Thread(target=work_as, args=(driver, session, failures))
               for session in range(1, SESSIONS + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit("\n".join(failures))


def read(driver):
    client = driver(0)
    found = [("account", *row) for row in client.accounts()]
    rows = client.ledger()
    found += [("row", *row) for row in rows]
    for account in range(1, ACCOUNTS + 1):
        found += [("debit", *row) for row in client.ledger("debit", account)]
    for *_, token in rows:
        found += [("token", *row) for row in client.ledger("token", token)]
    with open(os.path.join(DIR, "read"), "w") as file:
        file.writelines(" ".join(map(str, row)) + "\n" for row in found)


DRIVER = {"psycopg": Psycopg, "sqlalchemy": SqlAlchemy}[sys.argv[1]]
match os.environ["CLIENTS_KILLS"]:
    case "create":
        DRIVER(0).create()
    case "work":
        work(DRIVER)
    case "read":
        read(DRIVER)
