"""Scans, snapshots, bulk loads and copies."""

from pathlib import Path

import pytest

import stele


def keys(scan: stele.Scan) -> list[bytes]:
    return [row for row, _ in scan]


@pytest.fixture
def filled(tree: stele.Tree) -> stele.Tree:
    batch = stele.WriteBatch()
    for number in range(2000):
        batch.put(b"%04d" % number, 1, b"q", b"v" * 100)
        if number % 10 == 0:
            batch.put(b"%04d" % number, 2, b"tenth", b"")
    tree.write(batch)
    return tree


@pytest.mark.parametrize("flushed", [False, True])
def test_scans_keep_to_their_bounds(filled: stele.Tree, flushed: bool) -> None:
    if flushed:
        filled.flush()
    every = [b"%04d" % number for number in range(2000)]
    assert keys(filled.scan()) == every
    assert keys(filled.scan(reverse=True)) == every[::-1]
    assert keys(filled.scan(b"0100", b"0200")) == every[100:200]
    assert keys(filled.scan(b"0100", b"0200", reverse=True, limit=3)) == every[199:196:-1]
    assert keys(filled.scan(prefix=b"01")) == every[100:200]
    assert keys(filled.scan(b"1990")) == every[1990:]
    assert keys(filled.scan(end=b"0003")) == every[:3]
    assert keys(filled.scan(limit=0)) == []
    assert keys(filled.scan(columns=[2])) == every[::10]
    row, cells = next(filled.scan(b"0010", versions_max=1))
    assert row == b"0010" and [cell.family for cell in cells] == [1, 2]
    with pytest.raises(stele.InvalidArgumentError, match="prefix"):
        filled.scan(b"a", prefix=b"b")


def test_a_scan_sees_one_moment(filled: stele.Tree) -> None:
    scan = filled.scan()
    next(scan)
    filled.compact_range(b"", b"1")
    batch = stele.WriteBatch()
    batch.drop_row_range(b"")
    filled.write(batch)
    assert len(keys(scan)) == 1999
    assert next(scan, None) is None and next(scan, None) is None
    assert keys(filled.scan()) == []


def test_a_closed_scan_says_so(filled: stele.Tree) -> None:
    with filled.scan() as scan:
        next(scan)
    with pytest.raises(stele.ClosedError, match="scan"):
        next(scan)


def test_a_snapshot_stays_as_it_was(engine: stele.Engine, tree: stele.Tree) -> None:
    last = tree.put(b"r", 1, b"q", b"old")
    with engine.snapshot() as snapshot:
        assert snapshot.sequence == last
        tree.put(b"r", 1, b"q", b"new")
        tree.put(b"s", 1, b"q", b"new")
        tree.compact_range()
        assert tree.get(b"r", 1, b"q", snapshot=snapshot) == (0, b"old")
        assert tree.multi_get([(b"s", 1, b"q")], snapshot=snapshot) == [None]
        assert tree.read_row(b"s", snapshot=snapshot) == []
        assert keys(tree.scan(snapshot=snapshot)) == [b"r"]
    assert tree.get(b"r", 1, b"q") == (0, b"new")
    with pytest.raises(stele.ClosedError, match="snapshot"):
        tree.get(b"r", 1, b"q", snapshot=snapshot)


def test_a_snapshot_of_another_engine_is_refused(
    engine: stele.Engine, tree: stele.Tree, tmp_path: Path
) -> None:
    with stele.Engine.open(tmp_path / "other") as other:
        with pytest.raises(stele.InvalidArgumentError, match="another engine"):
            tree.get(b"r", 1, b"q", snapshot=other.snapshot())


def test_a_load_appears_at_once(engine: stele.Engine, tree: stele.Tree) -> None:
    def part(numbers: range) -> stele.IngestFiles:
        with tree.sst_writer(compression="zstd", filters=False) as writer:
            for number in numbers:
                writer.put(b"%05d" % number, 1, b"q", b"v")
            with pytest.raises(stele.InvalidArgumentError, match="out of order"):
                writer.put(b"", 1, b"q", b"v")
            return writer.finish()

    files, more = part(range(1000)), part(range(1000, 3000))
    with pytest.raises(stele.InvalidArgumentError, match="themselves"):
        files.append(files)
    files.append(more)
    assert (len(files), files.cells) == (2, 3000) and files.bytes > 0
    assert keys(tree.scan()) == []
    engine.ingest(files)
    assert len(keys(tree.scan())) == 3000 and len(files) == 0
    with pytest.raises(stele.ClosedError, match="appended"):
        len(more)
    assert engine.metrics()["ingests_total"] == 1


def test_files_of_another_engine_stay_what_they_are(
    engine: stele.Engine, tree: stele.Tree, tmp_path: Path
) -> None:
    def load(tree: stele.Tree) -> stele.IngestFiles:
        with tree.sst_writer() as writer:
            writer.put(b"r", 1, b"q", b"v")
            return writer.finish()

    mine = load(tree)
    with stele.Engine.open(tmp_path / "other") as other:
        others = load(other.create_tree(1))
        with pytest.raises(stele.InvalidArgumentError, match="another engine"):
            mine.append(others)
        other.ingest(others)
        assert keys(other.tree(1).scan()) == [b"r"]
    engine.ingest(mine)


def test_a_load_that_is_given_up_leaves_nothing(tree: stele.Tree, tmp_path: Path) -> None:
    before = sorted((tmp_path / "data").iterdir())
    with tree.sst_writer() as writer:
        writer.put(b"r", 1, b"q", b"v")
    with pytest.raises(stele.ClosedError, match="writer"):
        writer.put(b"s", 1, b"q", b"v")
    with pytest.raises(stele.ClosedError, match="writer"):
        writer.finish()
    assert sorted((tmp_path / "data").iterdir()) == before


def test_a_copy_is_a_directory_of_its_own(
    engine: stele.Engine, filled: stele.Tree, tmp_path: Path
) -> None:
    engine.checkpoint(tmp_path / "copy")
    filled.delete(b"0000")
    with stele.Engine.open(tmp_path / "copy") as copy:
        assert len(keys(copy.tree(1).scan())) == 2000
    with pytest.raises(stele.UnusableError, match="not empty") as refused:
        engine.checkpoint(tmp_path / "copy")
    assert refused.value.path == tmp_path / "copy"
