"""Records of Ray Data by their names, for whoever lists, moves or deletes them through a filesystem of ours.

A committed record and a pending one of the same task mean that the task is done: the pending one is litter. Ray's own
recovery takes it for an order to delete the task's data, so it is never shown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from checkpoint_store.errors import CheckpointError, ConflictError

if TYPE_CHECKING:
    from checkpoint_store._native import Filesystem

logger = logging.getLogger(__name__)

RECORD = ".parquet"
PENDING = ".pending.parquet"
#: The UUID of a write, which Ray puts into the names of its records, and few others into those of their files.
_UUID = re.compile("[0-9a-f]{32}")


def is_pending(path: str) -> bool:
    """Whether a path is that of a pending record."""
    return path.endswith(PENDING) and _UUID.search(path.rpartition("/")[2]) is not None


def committed_of(path: str) -> str:
    """The path of the committed record of a pending one's task."""
    return path[: -len(PENDING)] + RECORD


def litter(paths: Iterable[str]) -> set[str]:
    """The pending records among paths whose committed twin is there too."""
    known = set(paths)
    return {path for path in known if is_pending(path) and committed_of(path) in known}


def sweep(store: Filesystem, paths: Iterable[str]) -> None:
    """Deletes litter. What stays is deleted another time."""
    try:
        for path, failure in store.delete(list(paths)):
            logger.debug("a pending record stays: %s: %s", path, failure)
    except CheckpointError as error:
        logger.debug("pending records stay: %s", error)


def _same_ids(one: bytes, other: bytes) -> bool:
    """Whether two records are of one task: a task that is tried again may give its rows in another order."""
    if one == other:
        return True
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        tables = [pq.read_table(pa.BufferReader(data)) for data in (one, other)]
        sorted_ = [table.sort_by([(name, "ascending") for name in table.column_names]) for table in tables]
        return bool(sorted_[0].equals(sorted_[1]))
    except pa.ArrowException:
        return False


def publish(store: Filesystem, pending: str, committed: str, data: bytes | None = None) -> None:
    """Makes a pending record a committed one, and never replaces one. Asked again, it is done already.

    Raises:
        ConflictError: A record with other IDs is there.
        NotFoundError: There is neither.
    """
    renames, creates, _ = store.abilities(pending)
    if data is None:
        if store.stat(pending) is None and store.stat(committed) is not None:
            return
        data = store.read(pending)
    if renames:
        published = store.rename(pending, committed, if_absent=True)
    elif creates:
        published = store.write(committed, data, if_absent=True)
    else:
        # On such a store nothing keeps a second job out, and Ray's own check has just found none.
        published = store.stat(committed) is None and store.write(committed, data)
    if not published and not _same_ids(store.read(committed), data):
        raise ConflictError(
            f"a record with other IDs is there already: record={committed}\nhint: nothing was replaced; run again"
        )
    if not (renames and published):
        sweep(store, [pending])
