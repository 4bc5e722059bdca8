"""Runs DuckDB or ClickHouse in this process for `bench hits`.

Arguments: the engine (duckdb or chdb) and an empty directory for its data. Each line of standard input is a request
as a JSON object, whose answer is one line of JSON on standard output. An answer with "error" means that the request
failed. Times are seconds; CPU time is that of all threads of this process and of its ended children.
"""

import json
import os
import resource
import sys
import time

# Libraries may write to standard output. It goes to standard error, and answers have a descriptor of their own.
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


def cpu_seconds():
    """Returns the CPU time so far."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def peak_bytes():
    """Returns the largest resident memory so far."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def quoted(text):
    """Returns a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


class DuckDb:
    """A database of DuckDB in one file."""

    def __init__(self, directory):
        import duckdb

        self.version = "DuckDB " + duckdb.__version__
        self.path = os.path.join(directory, "hits.duckdb")
        self.connection = duckdb.connect(self.path)

    def create(self, request):
        self.connection.execute(request["create"])

    def load(self, request):
        options = "delim ',', quote '\"', escape '\"', header false, nullstr '\\N'"
        self.connection.execute(f"COPY hits FROM {quoted(request['file'])} (FORMAT csv, {options})")
        self.connection.execute("CHECKPOINT")

    def count_rows(self, sql):
        return len(self.connection.execute(sql).fetchall())

    def table_bytes(self):
        return os.path.getsize(self.path)


class ClickHouse:
    """A directory of ClickHouse with one database."""

    def __init__(self, directory):
        import chdb
        from chdb import session

        self.session = session.Session(directory)
        version = self.session.query("SELECT version()", "TSV").data().strip()
        self.version = f"ClickHouse {version} (chdb {chdb.__version__})"
        self.session.query("CREATE DATABASE IF NOT EXISTS clickbench ENGINE = Atomic")
        self.session.query("USE clickbench")

    def create(self, request):
        self.session.query(request["create"])

    def load(self, request):
        file = f"file({quoted(request['file'])}, 'TabSeparated', {quoted(request['columns'])})"
        self.session.query(f"INSERT INTO clickbench.hits SELECT * FROM {file}")

    def count_rows(self, sql):
        return self.session.query(sql, "TSV").data().count("\n")

    def table_bytes(self):
        sql = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'clickbench'"
        return int(self.session.query(sql, "TSV").data())


ENGINES = {"duckdb": DuckDb, "chdb": ClickHouse}


def run_query(engine, request):
    """Runs a query again and again for a time, and returns the means of one run."""
    cpu, begun = cpu_seconds(), time.monotonic()
    runs = 0
    while True:
        rows = engine.count_rows(request["sql"])
        runs += 1
        wall = time.monotonic() - begun
        if wall >= request["seconds_min"]:
            break
    return {"rows": rows, "cpu_s": (cpu_seconds() - cpu) / runs, "wall_s": wall / runs}


def answer(engine, request):
    """Returns the answer to a request."""
    verb = request["do"]
    if verb == "usage":
        return {"cpu_s": cpu_seconds(), "peak_bytes": peak_bytes(), "version": engine.version}
    if verb == "size":
        return {"table_bytes": engine.table_bytes()}
    if verb == "query":
        return run_query(engine, request)
    begun = time.monotonic()
    if verb == "create":
        engine.create(request)
    else:
        engine.load(request)
    return {"wall_s": time.monotonic() - begun}


def main():
    engine = None
    for line in sys.stdin:
        try:
            if engine is None:
                engine = ENGINES[sys.argv[1]](sys.argv[2])
            said = answer(engine, json.loads(line))
        except ImportError as error:
            package = sys.argv[1]
            said = {
                "error": f"the Python package {package} cannot be used ({error}); install it by "
                f"`{sys.executable} -m pip install {package}`, or name an interpreter that has it by --python"
            }
        except Exception as error:  # The caller reports every failure of a request.
            said = {"error": str(error).strip()}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


main()
