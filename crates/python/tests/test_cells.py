"""Writes and reads of cells mean what they mean in Rust."""

import struct
from pathlib import Path

import pytest

import stele


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    with stele.Engine.open(tmp_path) as engine:
        engine.create_tree(7).put(b"row", 1, b"q", b"\x00value\xff")
    with stele.Engine.open(str(tmp_path)) as engine:
        assert engine.trees() == [7]
        assert engine.tree(7).get(b"row", 1, b"q") == (0, b"\x00value\xff")


def test_a_batch_applies_in_its_order(tree: stele.Tree) -> None:
    batch = stele.WriteBatch()
    batch.put(b"r", 1, b"gone", b"1")
    batch.delete(b"r")
    batch.put(b"r", 1, b"stays", b"2")
    assert len(batch) == 3
    first = tree.write(batch)
    assert [cell.qualifier for cell in tree.read_row(b"r")] == [b"stays"]
    batch.clear()
    assert len(batch) == 0 and tree.write(batch) == first


def test_deletes_reach_as_far_as_they_say(tree: stele.Tree) -> None:
    def fill() -> None:
        for family in (1, 2):
            for qualifier in (b"a", b"b"):
                for timestamp in (10, 20):
                    tree.put(b"r", family, qualifier, b"v", timestamp)

    def left() -> list[tuple[int, bytes, int]]:
        return [(cell.family, cell.qualifier, cell.timestamp) for cell in tree.read_row(b"r")]

    fill()
    tree.delete(b"r", 1, b"a", timestamps=(0, 15))
    assert (1, b"a", 20) in left() and (1, b"a", 10) not in left() and len(left()) == 7
    tree.delete(b"r", 1, b"a")
    assert len(left()) == 6
    tree.delete(b"r", 2)
    assert left() == [(1, b"b", 20), (1, b"b", 10)]
    tree.delete(b"r")
    assert left() == []
    fill()
    batch = stele.WriteBatch()
    batch.drop_row_range(b"q", b"s")
    tree.write(batch)
    assert left() == []
    with pytest.raises(stele.InvalidArgumentError, match="family"):
        tree.delete(b"r", qualifier=b"a")


def test_operands_fold(tree: stele.Tree) -> None:
    batch = stele.WriteBatch()
    for operator, qualifier in (("sum", b"s"), ("min", b"n"), ("max", b"x")):
        for operand in (5, -3):
            batch.merge(b"r", 1, qualifier, operator, operand)  # type: ignore[arg-type]
    tree.write(batch)
    folded = {cell.qualifier: struct.unpack(">q", cell.value)[0] for cell in tree.read_row(b"r")}
    assert folded == {b"s": 2, b"n": -3, b"x": 5}


def test_rows_are_read_by_columns_versions_and_timestamps(tree: stele.Tree) -> None:
    for family in (1, 2):
        for qualifier in (b"a", b"b", b"c"):
            for timestamp in (1, 2, 3):
                tree.put(b"r", family, qualifier, b"v%d" % timestamp, timestamp)
    assert len(tree.read_row(b"r")) == 18
    newest = tree.read_row(b"r", versions_max=1)
    assert {cell.timestamp for cell in newest} == {3} and len(newest) == 6
    some = tree.read_row(b"r", columns=[2, (1, b"b"), (1, b"c", None)], versions_max=1)
    assert [(c.family, c.qualifier) for c in some] == [
        (1, b"b"), (1, b"c"), (2, b"a"), (2, b"b"), (2, b"c"),
    ]  # fmt: skip
    old = tree.read_row(b"r", columns=[(1, b"a", b"b")], timestamps=(1, 3))
    assert [cell.value for cell in old] == [b"v2", b"v1"]
    assert tree.read_row(b"r", columns=[]) == []
    assert tree.read_row(b"nobody") == []


def test_a_multi_get_answers_in_order(tree: stele.Tree) -> None:
    for number in range(0, 300, 2):
        tree.put(b"%03d" % number, 1, b"", b"%d" % number, timestamp=number)
    wanted = [(b"%03d" % number, 1, b"") for number in reversed(range(300))]
    for _ in range(2):
        answers = tree.multi_get(wanted)
        for number, answer in zip(reversed(range(300)), answers):
            assert answer == (None if number % 2 else (number, b"%d" % number))
        tree.flush()


def test_cells_compare_hash_and_show_themselves(tree: stele.Tree) -> None:
    tree.put(b"r", 1, b"q\n", b"v")
    (first,), (second,) = tree.read_row(b"r"), tree.read_row(b"r")
    assert first == second and hash(first) == hash(second) and first != b"v"
    assert repr(first) == 'stele.Cell(family=1, qualifier=b"q\\n", timestamp=0, value=b"v")'
    tree.put(b"r", 1, b"q\n", b"w")
    assert tree.read_row(b"r") != [first]
