"""Two tries of one task: whether what the first one has written serves the second one, too."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from checkpoint_store._records import PENDING, RECORD

if TYPE_CHECKING:
    from checkpoint_store._native import Filesystem


class Digest:
    """What tells the bytes of one file from those of another."""

    def __init__(self) -> None:
        self.length, self.checksum = 0, 0

    def add(self, data: bytes | memoryview) -> None:
        """Takes the next bytes in."""
        self.length += memoryview(data).nbytes
        self.checksum = zlib.crc32(data, self.checksum)

    def is_of(self, data: bytes) -> bool:
        """Whether these are the bytes."""
        return len(data) == self.length and zlib.crc32(data) == self.checksum


def stands(data: bytes, file: str, control: Filesystem, checkpoint: str) -> bool:
    """Whether a file of the first try is whole by the records: its task is committed, or its IDs are those that the
    second try has recorded. A task with several files whose tries differ is not: some may be of one, some of the other.
    """
    for end in (at for at in range(len(file) - 1, 0, -1) if file[at] in "-._"):
        record = f"{checkpoint}/{file[:end]}"
        if control.stat(record + RECORD) is not None:
            return True
        if control.stat(record + PENDING) is not None:
            return _same_ids(data, control.read(record + PENDING))
    return False


def _same_ids(data: bytes, record: bytes) -> bool:
    try:
        wanted = pq.read_table(pa.BufferReader(record))
        (column,) = wanted.column_names
        found = pq.read_table(pa.BufferReader(data), columns=[column])
        both = [table.select([column]).sort_by(column)[column].combine_chunks() for table in (wanted, found)]
        return bool(both[0].equals(both[1].cast(both[0].type)))
    except (pa.ArrowException, KeyError, ValueError):
        return False
