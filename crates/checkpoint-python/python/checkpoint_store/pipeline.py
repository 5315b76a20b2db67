"""A resumable batch job on one machine: read, filter, call a Python function, write, commit."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from checkpoint_store import _native, _options
from checkpoint_store.batches import FORMATS
from checkpoint_store.errors import InvalidConfigError
from checkpoint_store.progress import Progress
from checkpoint_store.reports import PlanReport, RunReport
from checkpoint_store.workers import Workers

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Pipeline"]

_Path = str | os.PathLike[str]


class Pipeline:
    """A job over files on any store. Run it again after any end, a ``kill -9`` included, and every input row is in the
    output exactly once, or as often as the function makes of it.

    Args:
        input: Files, directories or globs: URLs, or paths of this machine. Parquet, JSON lines, CSV, Arrow IPC.
        output: The directory for the results.
        checkpoint: The directory that keeps which rows are done. Neither is inside the other.
        id_column: The column that names a row: stable, never null, unique in the job.
        row_hash: Instead of it, name rows by their file and position: a column ``row_hash`` is added to the input.
        storage_options: Options by protocol, as fsspec has them.
        input_format: ``parquet``, ``jsonl``, ``csv`` or ``arrow``, where the names of the files do not tell.
        output_format: The same for the output; by default that of the input.
        rows_per_task: Rows that are committed together. By default 10,000, and more where these come fast.
        memory: Bytes of batches in flight.
        keep_checkpoint: Keep the checkpoint when the job is done.
        append: Add to an output that holds data of jobs whose checkpoint is gone.
        version: Your name for this version of the function: another one stops the job.
        allow_changed_read: Go on although the input or the version has changed.
        check_unique: Fail at once when an ID is in the input twice.
        max_failed_rows: Set aside up to so many rows on which the function fails, in ``_failed`` of the output.
        lease_url: Keeps the lease on another store, for a checkpoint on one without create-only writes.
        assume_exclusive: Your word that nobody else works on this checkpoint, for such a store.

    Raises:
        InvalidConfigError: Neither ``id_column`` nor ``row_hash`` is given, or both.
    """

    def __init__(
        self,
        *,
        input: _Path | Iterable[_Path],
        output: _Path,
        checkpoint: _Path,
        id_column: str | None = None,
        row_hash: bool = False,
        storage_options: Mapping[str, Mapping[str, Any]] | None = None,
        input_format: str | None = None,
        output_format: str | None = None,
        rows_per_task: int | None = None,
        memory: int | None = None,
        keep_checkpoint: bool = False,
        append: bool = False,
        version: str | None = None,
        allow_changed_read: bool = False,
        check_unique: bool = False,
        max_failed_rows: int = 0,
        lease_url: _Path | None = None,
        assume_exclusive: bool = False,
    ) -> None:
        if (id_column is None) != row_hash:
            raise InvalidConfigError("rows have one name\nhint: give id_column, or row_hash=True, and not both")
        inputs = [input] if isinstance(input, str | os.PathLike) else list(input)
        self._settings: dict[str, Any] = {
            "input": [os.fspath(url) for url in inputs],
            "output": os.fspath(output),
            "checkpoint": os.fspath(checkpoint),
            "id_column": id_column,
            "storage_options": _options.as_json(storage_options),
            "input_format": input_format,
            "output_format": output_format,
            "workers": None,
            "batch_rows": None,
            "rows_per_task": rows_per_task,
            "memory": memory,
            "keep_checkpoint": keep_checkpoint,
            "append": append,
            "version": version,
            "allow_changed_read": allow_changed_read,
            "check_unique": check_unique,
            "max_failed_rows": max_failed_rows,
            "lease_url": None if lease_url is None else os.fspath(lease_url),
            "assume_exclusive": assume_exclusive,
        }
        self._workers: Callable[[], Workers] | None = None

    def map_batches(
        self,
        fn: Callable[..., Any],
        *,
        batch_size: int | None = None,
        batch_format: str = "arrow",
        workers: int | None = None,
        processes: bool = False,
        schema: Any = None,
    ) -> Self:
        """The same pipeline with a function that every batch goes through.

        A batch that fails fails the run, with its IDs; what was finished before is committed. Its rows go to the output
        together or not at all.

        Args:
            fn: Takes a batch, and answers a batch, a table, a data frame, a dictionary of columns, ``None`` for no
                rows, or several of these as a list or a generator. The ID column comes back unchanged, with every row
                that comes back; rows may be dropped and multiplied. One with a parameter ``idempotency_key`` is given
                that too: a text that is the same for the same rows in every attempt. A class is made into an object
                once for each worker, and that is called.
            batch_size: The most rows of a batch; 1,024 by default.
            batch_format: What a batch is: ``arrow`` (``pyarrow.RecordBatch``), ``pandas`` or ``polars`` (a
                ``DataFrame``), or ``numpy`` (a dictionary of arrays).
            workers: Batches that are worked on at once; as many as there are cores by default.
            processes: Call it in processes of their own instead of threads: for a function that keeps Python busy. It
                must pickle, and so must not be a lambda; with ``cloudpickle`` installed it may be. A process that dies
                fails its batch, and another takes its place.
            schema: The ``pyarrow.Schema`` of what comes out, for data frames and dictionaries, whose types are told by
                their values otherwise.

        Raises:
            InvalidConfigError: A setting is wrong, or there is a function already.
        """
        if self._workers is not None:
            raise InvalidConfigError("a pipeline has one function\nhint: call the others from it")
        if batch_format not in FORMATS:
            raise InvalidConfigError(f"there is no such batch format: {batch_format!r}\nhint: {', '.join(FORMATS)}")
        for name, number in (("batch_size", batch_size), ("workers", workers)):
            if number is not None and number < 1:
                raise InvalidConfigError(f"{name} must be 1 or more: {name}={number}")
        mapped = copy.copy(self)
        count = workers or os.cpu_count() or 1
        mapped._settings = self._settings | {"batch_rows": batch_size, "workers": count}
        mapped._workers = lambda: Workers(fn, batch_format, schema, processes)
        return mapped

    def run(self, progress: str | Callable[[Mapping[str, Any]], None] = "auto") -> RunReport:
        """Runs the job to its end.

        The first Ctrl-C lets batches in hand go, commits what is finished, and raises ``KeyboardInterrupt``; a second
        one stops at once, as a kill would.

        Args:
            progress: ``auto`` is a bar of tqdm, where that is installed and somebody looks at a terminal or a notebook,
                and lines otherwise. ``tqdm``, ``plain`` and ``none`` say which. Or a function, which is given a
                dictionary of counters about once a second, in another thread.

        Raises:
            TransformError: The function failed on a batch. Its exception is the cause.
            ConflictError: Somebody else runs the job, or it is not the one that began the checkpoint.
            BadDataError: IDs, input or output break the rules.
            InvalidConfigError: A setting is wrong, or there is no input.
            OutcomeUnknownError: Nobody knows whether a commit was done; run it again, it finds out.
        """
        workers = None if self._workers is None else self._workers()
        try:
            native = _native.Pipeline(self._settings, workers)
            with Progress(progress, native.counters):
                return RunReport._of_json(native.run())
        finally:
            if workers is not None:
                workers.close()

    def plan(self) -> PlanReport:
        """Says what a run would do, and writes nothing. Raises what :meth:`run` does."""
        return PlanReport._of_json(_native.Pipeline(self._settings).plan())

    def __repr__(self) -> str:
        return f"Pipeline(input={self._settings['input']!r}, output={self._settings['output']!r})"
