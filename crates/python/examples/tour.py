"""A tour of the module `stele` in a few minutes; each part could be a cell of a notebook.

    python tour.py [DIR]
"""

import sys
import tempfile
from pathlib import Path

import stele

# Where data lives. One process at a time has a directory open.
root = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="stele-tour-"))
FACTS, SEEN = 1, 2  # families: numbers that a program chooses, 1 to 65535

with stele.Engine.open(root / "live", memory_bytes_max=64 << 20) as engine:
    people = engine.create_tree(1, compression_last="zstd")

    # One cell, and many at once: a batch takes effect as a whole, and is on disk when `write`
    # returns.
    people.put(b"ada", FACTS, b"born", b"1815")
    batch = stele.WriteBatch()
    for name, born, field in [
        (b"alan", b"1912", b"logic"),
        (b"grace", b"1906", b"compilers"),
        (b"edsger", b"1930", b"graphs"),
    ]:
        batch.put(name, FACTS, b"born", born)
        batch.put(name, FACTS, b"field", field)
        batch.merge(name, SEEN, b"times", "sum", 1)
    people.write(batch)

    # A column, many columns, a row.
    assert people.get(b"ada", FACTS, b"born") == (0, b"1815")
    found = people.multi_get([(b"alan", FACTS, b"field"), (b"nobody", FACTS, b"field")])
    assert found == [(0, b"logic"), None]
    for cell in people.read_row(b"grace"):
        print(cell)

    # Rows in order: from one up to another, with a prefix, from the end, so many, some columns.
    names = [row for row, _ in people.scan(b"alan", b"f")]
    assert names == [b"alan", b"edsger"]
    last = [row for row, _ in people.scan(reverse=True, limit=1, columns=[(FACTS, b"born")])]
    assert last == [b"grace"]

    # Versions: the newest comes first.
    for year, place in [(1930, b"Rotterdam"), (1952, b"Amsterdam"), (1984, b"Austin")]:
        people.put(b"edsger", FACTS, b"place", place, timestamp=year)
    places = people.read_row(b"edsger", columns=[(FACTS, b"place")], timestamps=(0, 1980))
    assert [cell.value for cell in places] == [b"Amsterdam", b"Rotterdam"]

    # A moment that stays as it was.
    with engine.snapshot() as before:
        people.delete(b"alan")
        assert people.get(b"alan", FACTS, b"born") is None
        assert people.get(b"alan", FACTS, b"born", snapshot=before) == (0, b"1912")

    # Sorted cells go straight into files, and appear all at once.
    numbers = engine.create_tree(2)
    with numbers.sst_writer() as writer:
        for number in range(10_000):
            writer.put(b"%06d" % number, FACTS, b"square", b"%d" % number**2)
        engine.ingest(writer.finish())
    assert numbers.get(b"000012", FACTS, b"square") == (0, b"144")

    # A copy of the live engine, as it is now, made of hard links.
    engine.checkpoint(root / "copy")
    people.put(b"ada", FACTS, b"born", b"unknown")
    print({name: value for name, value in engine.metrics().items() if "ingest" in name})

with stele.Engine.open(root / "copy") as copy:
    assert copy.trees() == [1, 2]
    assert copy.tree(1).get(b"ada", FACTS, b"born") == (0, b"1815")

try:
    people.get(b"ada", FACTS, b"born")
except stele.ClosedError as error:
    print("after the engine:", error)
