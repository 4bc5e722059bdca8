"""Engines in directories of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import stele


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[stele.Engine]:
    with stele.Engine.open(tmp_path / "data", memory_bytes_max=32 << 20) as engine:
        yield engine


@pytest.fixture
def tree(engine: stele.Engine) -> stele.Tree:
    return engine.create_tree(1)
