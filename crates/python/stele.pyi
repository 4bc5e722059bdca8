"""Stele's storage engine inside a Python program: rows of cells, on disk, in order."""

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Literal, Optional, Union, final

from typing_extensions import Self

__all__ = [
    "Engine",
    "Tree",
    "WriteBatch",
    "Cell",
    "Scan",
    "Snapshot",
    "SstWriter",
    "IngestFiles",
    "__version__",
    "Error",
    "IoError",
    "NoSpaceError",
    "CorruptionError",
    "UnusableError",
    "InvalidArgumentError",
    "UnknownTreeError",
    "WritesStoppedError",
    "UnavailableError",
    "ClosedError",
]

__version__: str

_Compression = Literal["none", "lz4", "zstd"]
_Path = Union[str, "os.PathLike[str]"]
# A family, a column of it, or its columns from one up to, but without, another.
_Column = Union[int, tuple[int, bytes], tuple[int, bytes, Optional[bytes]]]
_Timestamps = tuple[int, Optional[int]]

class Error(Exception): ...

class IoError(Error):
    path: pathlib.Path

class NoSpaceError(IoError): ...

class CorruptionError(Error):
    path: pathlib.Path
    offset: int

class UnusableError(Error):
    path: pathlib.Path

class InvalidArgumentError(Error): ...
class UnknownTreeError(Error): ...
class WritesStoppedError(Error): ...
class UnavailableError(Error): ...
class ClosedError(Error): ...

@final
class Engine:
    @staticmethod
    def open(
        path: _Path,
        *,
        durability: Union[Literal["sync", "none"], float, None] = None,
        memory_bytes_max: Optional[int] = None,
        cache_bytes_max: Optional[int] = None,
        memtable_bytes_max: Optional[int] = None,
        log_segment_bytes: Optional[int] = None,
        direct_reads: bool = False,
        background_threads: int = 2,
    ) -> Engine: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_error: object) -> None: ...
    def create_tree(
        self,
        id: int,
        *,
        block_bytes: Optional[int] = None,
        compression: Optional[_Compression] = None,
        compression_last: Optional[_Compression] = None,
        filter_bits_per_key: Optional[int] = None,
        filter_granularity: Optional[Literal["row", "family", "column"]] = None,
        row_prefix_bytes: int = 0,
        prefix_index: bool = False,
    ) -> Tree: ...
    def drop_tree(self, id: int) -> None: ...
    def tree(self, id: int) -> Tree: ...
    def trees(self) -> list[int]: ...
    def snapshot(self) -> Snapshot: ...
    def sync(self) -> None: ...
    def checkpoint(self, path: _Path) -> None: ...
    def ingest(self, files: IngestFiles) -> int: ...
    def metrics(self) -> dict[str, int]: ...

@final
class Tree:
    @property
    def id(self) -> int: ...
    def write(self, batch: WriteBatch) -> int: ...
    def put(
        self, row: bytes, family: int, qualifier: bytes, value: bytes, timestamp: int = 0
    ) -> int: ...
    def delete(
        self,
        row: bytes,
        family: Optional[int] = None,
        qualifier: Optional[bytes] = None,
        *,
        timestamps: Optional[_Timestamps] = None,
    ) -> int: ...
    def get(
        self, row: bytes, family: int, qualifier: bytes, *, snapshot: Optional[Snapshot] = None
    ) -> Optional[tuple[int, bytes]]: ...
    def multi_get(
        self,
        columns: Sequence[tuple[bytes, int, bytes]],
        *,
        snapshot: Optional[Snapshot] = None,
    ) -> list[Optional[tuple[int, bytes]]]: ...
    def read_row(
        self,
        row: bytes,
        *,
        columns: Optional[Sequence[_Column]] = None,
        versions_max: Optional[int] = None,
        timestamps: Optional[_Timestamps] = None,
        snapshot: Optional[Snapshot] = None,
    ) -> list[Cell]: ...
    def scan(
        self,
        start: Optional[bytes] = None,
        end: Optional[bytes] = None,
        *,
        prefix: Optional[bytes] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
        columns: Optional[Sequence[_Column]] = None,
        versions_max: Optional[int] = None,
        timestamps: Optional[_Timestamps] = None,
        snapshot: Optional[Snapshot] = None,
    ) -> Scan: ...
    def flush(self) -> None: ...
    def compact_range(
        self,
        start: Optional[bytes] = None,
        end: Optional[bytes] = None,
        *,
        prefix: Optional[bytes] = None,
    ) -> None: ...
    def sst_writer(
        self, *, compression: Optional[_Compression] = None, filters: bool = True
    ) -> SstWriter: ...

@final
class WriteBatch:
    def __new__(cls) -> Self: ...
    def put(
        self, row: bytes, family: int, qualifier: bytes, value: bytes, timestamp: int = 0
    ) -> None: ...
    def merge(
        self,
        row: bytes,
        family: int,
        qualifier: bytes,
        operator: Literal["sum", "min", "max"],
        operand: int,
        timestamp: int = 0,
    ) -> None: ...
    def delete(
        self,
        row: bytes,
        family: Optional[int] = None,
        qualifier: Optional[bytes] = None,
        *,
        timestamps: Optional[_Timestamps] = None,
    ) -> None: ...
    def drop_row_range(self, start: bytes, end: Optional[bytes] = None) -> None: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...

@final
class Cell:
    @property
    def family(self) -> int: ...
    @property
    def qualifier(self) -> bytes: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def value(self) -> bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Scan(Iterator[tuple[bytes, list[Cell]]]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[bytes, list[Cell]]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_error: object) -> None: ...

@final
class Snapshot:
    @property
    def sequence(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_error: object) -> None: ...

@final
class SstWriter:
    def put(
        self, row: bytes, family: int, qualifier: bytes, value: bytes, timestamp: int = 0
    ) -> None: ...
    def finish(self) -> IngestFiles: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_error: object) -> None: ...

@final
class IngestFiles:
    def append(self, other: IngestFiles) -> None: ...
    def __len__(self) -> int: ...
    @property
    def cells(self) -> int: ...
    @property
    def bytes(self) -> int: ...
