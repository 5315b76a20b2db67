"""How many rows the filters of a run left out: more than there are IDs, and the input repeats one."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError

logger = logging.getLogger(__name__)

#: How long a task waits to be counted, in seconds. A count that is lost finds nothing, and harms nothing.
_PATIENCE = 30.0


class _Counter:
    """The rows that each task left out of each source. A task that is tried again counts once."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, str], int] = {}

    def note(self, source: int, task: str, rows: int) -> None:
        self.rows[source, task] = max(rows, self.rows.get((source, task), 0))

    def totals(self) -> list[int]:
        found: dict[int, int] = {}
        for (source, _), rows in self.rows.items():
            found[source] = found.get(source, 0) + rows
        return list(found.values())


class Tally:
    """Counts in a process of its own, which takes no processor. Copies of it in tasks count into the same one."""

    def __init__(self) -> None:
        self._counter: Any = ray.remote(num_cpus=0, max_restarts=0)(_Counter).remote()
        self._task, self._rows = "", 0

    def add(self, source: int, rows: int) -> None:
        """Counts rows of a source that the task which asks has left out."""
        task = ray.get_runtime_context().get_task_id() or ""
        if task != self._task:
            self._task, self._rows = task, 0
        self._rows += rows
        with contextlib.suppress(RayActorError, GetTimeoutError):
            ray.get(self._counter.note.remote(source, task, self._rows), timeout=_PATIENCE)

    def totals(self) -> list[int]:
        """The rows of all tasks, for each source of which some were left out; none where they can no longer be told."""
        try:
            return list(ray.get(self._counter.totals.remote(), timeout=_PATIENCE))
        except (RayActorError, GetTimeoutError):
            logger.warning("how many rows were left out is not known; whether the input repeats IDs was not checked")
            return []
