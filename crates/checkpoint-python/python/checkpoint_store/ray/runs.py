"""The runs of this process: one for each configuration, led by the driver."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

from checkpoint_store import _native, _options
from checkpoint_store.errors import BadDataError, CheckpointError, ConflictError
from checkpoint_store.ray.parts import read_parts
from checkpoint_store.ray.rows import Rows
from checkpoint_store.ray.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from checkpoint_store.ray.filesystems import Options
    from checkpoint_store.ray.settings import Settings

logger = logging.getLogger(__name__)

_runs: dict[str, Run] = {}
_lock = threading.Lock()


def attempt_of(key: str) -> tuple[int, str] | None:
    """The attempt that a configuration's run is at, where this process leads it: its number and its nonce."""
    run = _runs.get(key)
    return run.attempt if run is not None else None


def run_of(settings: Settings) -> Run:
    """The run of a configuration in this process."""
    with _lock:
        return _runs.setdefault(settings.key, Run(settings))


class Run:
    """One execution after another of one job, each an attempt of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.attempt: tuple[int, str] | None = None
        self.is_complete = False
        self.rows = 0
        self._attempt: _native.ClusterAttempt | None = None
        self._datasink: Any = None
        self._is_running = False
        self._writes: list[str] | None = None
        #: The thread that plans and runs it.
        self._leader = threading.current_thread()
        self._ids_ref: Any = None
        self._tally: Tally | None = None
        #: The plan as a round of Ray's optimizer finds it.
        self.dag: str | None = None
        #: Whether the plan leaves out the rows that are done.
        self.is_filtered = False

    def plans(self, datasink: Any) -> bool:
        """Whether the execution that is being planned has its attempt: a plan may be looked at more than once."""
        begun = self._attempt is not None or self.is_complete
        return begun and self._datasink is datasink and not self._is_running

    def plan(self, datasink: Any, job: dict[str, Any], options: Options | None, id_type: Any) -> None:
        """Begins an attempt for the execution that is being planned.

        Raises:
            CheckpointError: Of the kinds of the store: in use, changed, damaged, not reachable.
        """
        if self._is_running:
            if self._leader is not threading.current_thread() and self._leader.is_alive():
                raise ConflictError(
                    f"another thread runs the job of this configuration: url={self.settings.checkpoint_url}\nhint: "
                    "wait for it; one checkpoint is for one job and one output"
                )
            # The executor tells of every end but that of a program that let go of it.
            logger.warning("the execution before is given up: %s", self.settings.checkpoint_url)
        self.end("interrupted" if self._is_running else "failed")
        self._end_others()
        self._leader = threading.current_thread()
        text = _options.as_json(options)
        parts = read_parts(job["checkpoint"], options)
        attempt, rows = _native.ClusterAttempt.begin(json.dumps(job), text, id_type, parts)
        self._attempt, self._datasink, self.rows = attempt, datasink, rows
        self.is_complete = attempt is None
        self.attempt = (attempt.number, attempt.nonce) if attempt is not None else None
        if attempt is None:
            logger.info("the job is complete, its %s rows are in the output: %s", rows, self.settings.checkpoint_url)
            return
        rolled, voided, deleted = attempt.recovery
        logger.info(
            "attempt %d: %d rows are done; %d tasks rolled forward, %d void, %d files deleted: %s",
            attempt.number, rows, rolled, voided, deleted, self.settings.checkpoint_url,
        )  # fmt: skip

    def _end_others(self) -> None:
        """Ends attempts on the same checkpoint that were planned and never ran, by configurations made before."""
        for other in list(_runs.values()):
            same = other.settings.checkpoint_url == self.settings.checkpoint_url
            if other is not self and same and not other._is_running:
                other.end("failed")

    def ids_ref(self) -> Any:
        """The IDs that are done in Ray's object store, once for each machine; none where there are none."""
        import ray

        if self._ids_ref is None:
            if self.is_complete:
                self._ids_ref = ray.put(None)
            elif self._attempt is not None and self.rows:
                import numpy as np

                self._ids_ref = ray.put(np.frombuffer(memoryview(self._attempt.ids), dtype=np.uint8))
        return self._ids_ref

    def filters(self) -> Iterator[Rows] | None:
        """What leaves out the rows that are done, and counts them, for each source; none where nothing is done."""
        ref = self.ids_ref()
        if ref is None:
            return None
        if self._tally is None and not self.is_complete:
            self._tally = Tally()
        return (Rows(ref, self.settings.id_column, self._tally, source) for source in itertools.count())

    def start(self, writes: list[str]) -> None:
        """Writes down whose tasks are this attempt's, before the first of them starts."""
        if self._attempt is None:
            return
        try:
            self._attempt.name_writes(writes)
        except BaseException:
            # Ray tells nobody of an execution that did not start.
            self.end("failed")
            raise
        self._is_running, self._writes = True, writes

    def is_of(self, writes: list[str]) -> bool:
        """Whether an execution with these writes is this one."""
        return self._writes == writes

    def succeed(self) -> None:
        """Ends the job: all rows are done, and no task is in flight."""
        attempt, self._attempt = self._attempt, None
        left_out = self._tally.most() if self._tally is not None else 0
        self._forget()
        if attempt is not None:
            _check_left_out(attempt, left_out)
            rows = attempt.finish(not self.settings.delete_on_success)
            logger.info("the job is complete: %d rows: %s", rows, self.settings.checkpoint_url)

    def end(self, state: str) -> None:
        """Ends the attempt, and leaves the job to the next one."""
        attempt, self._attempt = self._attempt, None
        self._forget()
        if attempt is not None:
            try:
                attempt.end(state)
            except CheckpointError as error:
                logger.warning("the attempt could not be ended, its lease runs out by itself: %s", error)

    def _forget(self) -> None:
        self.attempt = None
        self._datasink, self._is_running, self._ids_ref, self.dag, self.is_complete = None, False, None, None, False
        self.is_filtered, self._tally, self._writes = False, None, None


def _check_left_out(attempt: _native.ClusterAttempt, left_out: int) -> None:
    """Refuses the end of a job whose input has an ID in several rows, one of which was done before."""
    if left_out <= attempt.rows:
        return
    attempt.end("failed")
    raise BadDataError(
        f"the input repeats IDs that were done: rows={left_out} ids={attempt.rows}\nhint: the rows beyond the first of "
        "an ID were left out and are not in the output; give each row an ID of its own, and begin again with a fresh "
        "checkpoint and output"
    )


@atexit.register
def _end_all() -> None:
    for run in list(_runs.values()):
        with contextlib.suppress(Exception):
            run.end("interrupted")
