"""Opening, closing, errors and threads."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest

import stele


def test_whatever_outlives_its_engine_says_so(tmp_path: Path) -> None:
    engine = stele.Engine.open(tmp_path / "data")
    tree = engine.create_tree(1)
    tree.put(b"r", 1, b"q", b"v")
    scan, snapshot, writer, unread = tree.scan(), engine.snapshot(), tree.sst_writer(), tree.scan()
    next(scan)
    writer.put(b"a", 1, b"q", b"v")
    with tree.sst_writer() as other:
        other.put(b"b", 1, b"q", b"v")
        files = other.finish()
    assert not engine.closed
    engine.close()
    engine.close()
    assert engine.closed and "closed" in repr(engine)
    for call in [
        lambda: tree.put(b"r", 1, b"q", b"v"),
        lambda: tree.get(b"r", 1, b"q"),
        lambda: tree.get(b"r", 1, b"q", snapshot=snapshot),
        lambda: tree.read_row(b"r"),
        lambda: tree.multi_get([]),
        lambda: tree.scan(),
        lambda: next(scan),
        lambda: next(unread),
        lambda: writer.put(b"b", 1, b"q", b"v"),
        lambda: writer.finish(),
        lambda: len(files),
        lambda: engine.ingest(files),
        lambda: engine.snapshot(),
        lambda: engine.metrics(),
        lambda: engine.trees(),
        lambda: engine.checkpoint(tmp_path / "copy"),
    ]:  # type: Callable[[], Any]
        with pytest.raises(stele.ClosedError, match="closed"):
            call()
    # Although they all still live, the directory is free, and nothing of the load was left in it.
    with stele.Engine.open(tmp_path / "data") as again:
        assert [row for row, _ in again.tree(1).scan()] == [b"r"]
        assert again.metrics()["log_segments"] > 0
    del scan, unread, snapshot, writer, files


def test_a_servers_store_is_read_and_not_written_to(tmp_path: Path) -> None:
    store = os.environ.get("SERVERS_STORE")
    if store is None:
        pytest.skip("SERVERS_STORE names no server's store; the suite of the clients makes one")
    batch = stele.WriteBatch()
    batch.put(b"new", 1, b"q", b"v")
    with stele.Engine.open(store) as engine:
        assert engine.trees() == [16]
        tree = engine.tree(16)
        writer = tree.sst_writer()
        writer.put(b"new", 1, b"q", b"v")
        files = writer.finish()
        for call in [
            lambda: tree.put(b"new", 1, b"q", b"v"),
            lambda: tree.write(batch),
            lambda: tree.delete(b"row"),
            lambda: engine.ingest(files),
            lambda: engine.create_tree(17),
            lambda: engine.drop_tree(16),
        ]:  # type: Callable[[], Any]
            with pytest.raises(stele.UnusableError, match="it belongs to a server"):
                call()
        assert tree.get(b"row", 1, b"q") == (1, b"value")
        assert [row for row, _ in tree.scan()] == [b"row"]


def test_a_directory_is_opened_once(engine: stele.Engine, tmp_path: Path) -> None:
    with pytest.raises(stele.UnusableError) as refused:
        stele.Engine.open(tmp_path / "data")
    assert refused.value.path == tmp_path / "data"
    assert isinstance(refused.value, stele.Error)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durability": "often"}, "durability"),
        ({"durability": -1.0}, "durability"),
        ({"durability": 3600}, "1 ms to 60 s"),
        ({"memory_bytes_max": 1}, "memory_bytes_max"),
        ({"cache_bytes_max": 1}, "cache_bytes_max"),
        ({"memtable_bytes_max": 1}, "memtable_bytes_max"),
        ({"log_segment_bytes": 1}, "log_segment_bytes"),
        ({"background_threads": 0}, "background_threads"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(stele.InvalidArgumentError, match=text):
        stele.Engine.open(tmp_path / "data", **options)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("durability", ["sync", "none", 0.5, 1])
def test_every_durability_opens(tmp_path: Path, durability: Any) -> None:
    with stele.Engine.open(tmp_path, durability=durability, direct_reads=True) as engine:
        engine.create_tree(1).put(b"r", 1, b"q", b"v")
        engine.sync()


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "brotli"},
        {"compression_last": "brotli"},
        {"filter_granularity": "cell"},
        {"block_bytes": 1},
        {"filter_bits_per_key": 33},
        {"prefix_index": True},
    ],
)
def test_options_of_trees_are_checked(engine: stele.Engine, options: dict[str, Any]) -> None:
    with pytest.raises(stele.InvalidArgumentError):
        engine.create_tree(1, **options)
    tree = engine.create_tree(
        2,
        block_bytes=4096,
        compression="none",
        compression_last="zstd",
        filter_bits_per_key=10,
        filter_granularity="family",
        row_prefix_bytes=4,
        prefix_index=True,
    )
    assert tree.id == 2 and engine.trees() == [2]


def test_trees_come_and_go(engine: stele.Engine, tree: stele.Tree) -> None:
    with pytest.raises(stele.InvalidArgumentError):
        engine.create_tree(1)
    engine.drop_tree(1)
    for call in (lambda: engine.tree(1), lambda: tree.put(b"r", 1, b"q", b"v"), tree.flush):
        with pytest.raises(stele.UnknownTreeError):
            call()


def test_arguments_over_a_limit_are_refused(tree: stele.Tree) -> None:
    batch = stele.WriteBatch()
    long = b"x" * ((64 << 10) + 1)
    for row, family, qualifier in [(long, 1, b""), (b"r", 1, long)]:
        with pytest.raises(stele.InvalidArgumentError, match="over the limit of 65536 bytes"):
            batch.put(row, family, qualifier, b"")
        with pytest.raises(stele.InvalidArgumentError, match="over the limit"):
            tree.put(row, family, qualifier, b"")
    assert len(batch) == 0
    with pytest.raises(stele.InvalidArgumentError):
        tree.put(b"r", 0, b"q", b"family 0 is reserved")
    with pytest.raises(OverflowError):
        tree.put(b"r", 65536, b"q", b"v")
    with pytest.raises(stele.InvalidArgumentError, match="operator"):
        batch.merge(b"r", 1, b"q", "product", 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        tree.put("text", 1, b"q", b"v")  # type: ignore[arg-type]


def test_damage_names_file_and_offset(tmp_path: Path) -> None:
    with stele.Engine.open(tmp_path) as engine:
        tree = engine.create_tree(1, compression="none")
        for number in range(1000):
            tree.put(b"%04d" % number, 1, b"q", b"v" * 100)
        tree.flush()
    (sst,) = tmp_path.glob("*.sst")
    data = bytearray(sst.read_bytes())
    place = len(data) // 2
    data[place] ^= 1
    sst.write_bytes(data)
    with stele.Engine.open(tmp_path) as engine:
        scan, rows = engine.tree(1).scan(), []
        with pytest.raises(stele.CorruptionError) as found:
            for row, _ in scan:
                rows.append(row)
        assert found.value.path == sst and place - (64 << 10) < found.value.offset <= place
        # All rows before the damage, and none after it.
        assert rows == [b"%04d" % number for number in range(len(rows))] and 0 < len(rows) < 900
        assert next(scan, None) is None


def test_threads_write_and_read_side_by_side(engine: stele.Engine, tree: stele.Tree) -> None:
    def work(thread: int) -> None:
        batch = stele.WriteBatch()
        for number in range(50):
            batch.clear()
            batch.put(b"%d/%03d" % (thread, number), 1, b"q", b"v")
            tree.write(batch)
            assert len(list(tree.scan(prefix=b"%d/" % thread))) == number + 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(list(tree.scan())) == 400


def test_a_scan_and_a_batch_can_be_shared_by_threads(tree: stele.Tree) -> None:
    batch = stele.WriteBatch()

    def fill(thread: int) -> None:
        for number in range(500):
            batch.put(b"%d/%03d" % (thread, number), 1, b"q", b"v")
            if number % 100 == 0:
                tree.write(batch)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(fill, range(4)))
    assert len(batch) == 2000
    tree.write(batch)
    scan = tree.scan()
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(lambda _: [row for row, _ in scan], range(4)))
    rows = [row for part in parts for row in part]
    assert len(rows) == 2000 and len(set(rows)) == 2000


def test_closing_waits_for_calls_of_other_threads(tmp_path: Path) -> None:
    engine = stele.Engine.open(tmp_path)
    tree = engine.create_tree(1)
    started, ends = threading.Barrier(5), []

    def write(thread: int) -> None:
        started.wait()
        number = 0
        try:
            while True:
                tree.put(b"%d/%06d" % (thread, number), 1, b"q", b"v")
                number += 1
        except stele.ClosedError:
            ends.append((thread, number))

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    engine.close()
    for thread in threads:
        thread.join()
    # What a thread was told is there, and no more than that.
    with stele.Engine.open(tmp_path) as again:
        for thread_id, number in ends:
            assert len(list(again.tree(1).scan(prefix=b"%d/" % thread_id))) == number
    assert len(ends) == 4


def test_help_is_there_for_everything() -> None:
    for name in dir(stele):
        item = getattr(stele, name)
        if isinstance(item, type):
            assert item.__doc__, name
            for member, value in vars(item).items():
                if not member.startswith("_"):
                    assert value.__doc__, f"{name}.{member}"


def test_the_tour_runs(tmp_path: Path) -> None:
    import runpy
    import sys

    tour = Path(__file__).parent.parent / "examples" / "tour.py"
    argv, sys.argv = sys.argv, [str(tour), str(tmp_path)]
    try:
        runpy.run_path(str(tour))
    finally:
        sys.argv = argv
