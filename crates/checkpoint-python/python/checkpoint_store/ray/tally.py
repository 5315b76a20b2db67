"""How many rows the filters of a run left out: more than there are IDs, and the input repeats one."""

from __future__ import annotations

import hashlib
import logging
import threading
from typing import Any

import pyarrow as pa
import ray
from ray.exceptions import GetTimeoutError, RayActorError

logger = logging.getLogger(__name__)

#: How long a task waits to be counted, in seconds. A count that is lost finds nothing, and harms nothing.
_PATIENCE = 30.0


class _Counter:
    """The rows that were left out of each block of each source. A block that is seen again, since its task or its step
    is tried again, counts once."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, str, str], int] = {}

    def note(self, source: int, task: str, block: str, rows: int) -> None:
        self.rows[source, task, block] = rows

    def most(self) -> int:
        found: dict[int, int] = {}
        for (source, _, _), rows in self.rows.items():
            found[source] = found.get(source, 0) + rows
        return max(found.values(), default=0)


class Tally:
    """Counts in a process of its own, which takes no processor. Copies of it in tasks count into the same one."""

    def __init__(self) -> None:
        self._counter: Any = ray.remote(num_cpus=0, max_restarts=0)(_Counter).remote()

    def add(self, source: int, ids: pa.ChunkedArray, rows: int) -> None:
        """Counts the rows that were left out of a block of a source, by all IDs of the block."""
        if self._counter is None:
            return
        # In other threads a task has another name each time, and in each try.
        is_main = threading.current_thread() is threading.main_thread()
        task = (ray.get_runtime_context().get_task_id() or "") if is_main else ""
        try:
            ray.get(self._counter.note.remote(source, task, _digest(ids), rows), timeout=_PATIENCE)
        except (RayActorError, GetTimeoutError):
            self._counter = None

    def most(self) -> int:
        """The rows of the source of which the most were left out; 0 where that can no longer be told."""
        try:
            return int(ray.get(self._counter.most.remote(), timeout=_PATIENCE))
        except (RayActorError, GetTimeoutError):
            logger.warning("how many rows were left out is not known; whether the input repeats IDs was not checked")
            return 0


def _digest(ids: pa.ChunkedArray) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for batch in pa.table({"id": ids}).to_batches():
        # What lies around a slice is not written.
        digest.update(batch.serialize())
    return digest.hexdigest()
