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
    """The rows that each task left out. A task that is tried again counts once."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    def note(self, task: str, rows: int) -> None:
        self.rows[task] = max(rows, self.rows.get(task, 0))

    def total(self) -> int:
        return sum(self.rows.values())


class Tally:
    """Counts in a process of its own, which takes no processor. Copies of it in tasks count into the same one."""

    def __init__(self) -> None:
        self._counter: Any = ray.remote(num_cpus=0, max_restarts=0)(_Counter).remote()
        self._task, self._rows = "", 0

    def add(self, rows: int) -> None:
        """Counts rows that the task which asks has left out."""
        task = ray.get_runtime_context().get_task_id() or ""
        if task != self._task:
            self._task, self._rows = task, 0
        self._rows += rows
        with contextlib.suppress(RayActorError, GetTimeoutError):
            ray.get(self._counter.note.remote(task, self._rows), timeout=_PATIENCE)

    def total(self) -> int:
        """The rows of all tasks; 0 where they can no longer be told."""
        try:
            return int(ray.get(self._counter.total.remote(), timeout=_PATIENCE))
        except (RayActorError, GetTimeoutError):
            logger.warning("how many rows were left out is not known; whether the input repeats IDs was not checked")
            return 0
