"""One run of a job over a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from checkpoint_store import _native
from checkpoint_store.ids import IdSet

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from typing_extensions import Buffer

__all__ = ["Attempt", "Task"]


class Owned:
    """What an attempt knows without asking the store."""

    def __init__(self, native: _native.Attempt | None) -> None:
        self._native = native
        self._ids: IdSet | None = None

    @property
    def already_complete(self) -> bool:
        """Whether the job ended before: then there is nothing to do, and this holds nothing."""
        return self._native is None

    @property
    def number(self) -> int:
        """The attempt's number, from 1; 0 when the job is complete."""
        return 0 if self._native is None else self._native.number

    @property
    def rolled_forward_tasks(self) -> int:
        """Tasks of earlier attempts that were finished and are committed now."""
        return self._owner().recovery[0]

    @property
    def voided_tasks(self) -> int:
        """Tasks of earlier attempts that did not count and were removed."""
        return self._owner().recovery[1]

    @property
    def ids(self) -> IdSet:
        """The IDs that are done from earlier attempts."""
        if self._ids is None:
            self._ids = IdSet(self._owner().ids())
        return self._ids

    @property
    def output_schema(self) -> _native.ArrowArray | None:
        """The schema of what earlier attempts wrote, where they recorded one: an object with ``__arrow_c_schema__``."""
        return self._owner().output_schema()

    def filter(self, data: Any, id_column: str) -> Any:
        """The rows that are left to do: :meth:`IdSet.filter` of :attr:`ids`."""
        return self.ids.filter(data, id_column)

    def check(self) -> None:
        """Raises :class:`~checkpoint_store.errors.ConflictError` once the lease is lost; asks nothing of the store."""
        self._owner().check()

    def _owner(self) -> _native.Attempt:
        if self._native is None:
            raise RuntimeError("the job is complete already; look at already_complete first")
        return self._native

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("an attempt belongs to its process; send its `ids` to others, and commit here")

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name}: the job is complete>" if self._native is None else f"<{name} {self.number}>"


class Attempt(Owned):
    """The owner of a checkpoint, made by :meth:`CheckpointStore.begin`.

    Its lease is renewed in the background, by native threads: no call of yours has to. When the lease is lost, every
    further call raises :class:`~checkpoint_store.errors.ConflictError` and changes nothing.

    Use it in a ``with`` block, and call :meth:`finish` or :meth:`stop` at its end. A block that ends by an exception
    ends the attempt as failed; all that is committed stays, and the next attempt goes on from there. A process that is
    killed needs nothing of this.

    It belongs to the process that began it, and can be used by all of its threads. In a child after a fork, and in a
    pickle, it is of no use, and says so.
    """

    def write(
        self,
        ids: Any,
        data_files: Mapping[str, Buffer | os.PathLike[str]] | Iterable[tuple[Any, ...]],
        *,
        failed_rows: int = 0,
    ) -> Task:
        """Does a whole task: its pending record, its data, its commit. Afterwards its rows are done.

        Args:
            ids: The IDs of the input rows of the task, also of those that gave no output: an Arrow column.
            data_files: The task's data, by the ending of the file name: ``{"parquet": data}``. Or several files:
                ``(ending, data)`` or ``(ending, data, rows)`` each. Data is bytes, or the path of a file of this
                machine. Parquet tells its rows itself; one file of another kind without ``rows`` has a row for each ID.
                Without any file the rows are done and have no output.
            failed_rows: How many of the rows were set aside.

        Raises:
            BadDataError: An ID is null, empty, of another type than the job's, twice in the task, or done already.
            ConflictError: The lease is lost. Nothing was committed.
            OutcomeUnknownError: Nobody knows whether it was committed; run the job again, it finds out.
        """
        task = self.prepare(ids, data_files, failed_rows=failed_rows)
        task.write_files()
        task.commit()
        return task

    def prepare(
        self,
        ids: Any,
        data_files: Mapping[str, Buffer | os.PathLike[str]] | Iterable[tuple[Any, ...]] = (),
        *,
        failed_rows: int = 0,
    ) -> Task:
        """The first of the three steps of :meth:`write`: the pending record. Nothing counts yet."""
        native = self._owner()
        return Task(native, native.prepare(ids, files_of(data_files), failed_rows))

    def finish(self, keep: bool = False) -> None:
        """Ends the job: all of its rows are done. Deletes the checkpoint and leaves a mark in the output, or keeps it.

        Raises:
            OutcomeUnknownError: A commit of this attempt ended in doubt; run the job again.
        """
        if self._native is not None:
            self._native.finish(keep)

    def stop(self) -> None:
        """Ends the attempt and not the job: the next attempt may begin at once, and goes on from here."""
        if self._native is not None:
            self._native.end(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._native is None or self._native.ended:
            return
        try:
            self._native.end(not isinstance(error, KeyboardInterrupt))
        except Exception as failure:
            # The lease then runs out by itself; what went wrong first is what matters.
            if error is None:
                raise
            error.add_note(f"the attempt could not be marked as ended: {failure}")
        if error is None:
            raise RuntimeError("the attempt was left without finish() or stop(); it was ended as failed")


def files_of(
    data_files: Mapping[str, Buffer | os.PathLike[str]] | Iterable[tuple[Any, ...]],
) -> list[tuple[str, Any, int | None]]:
    """The files of a task, each with its ending, its data and its rows where they are said."""
    files = data_files.items() if isinstance(data_files, Mapping) else data_files
    return [(ending.removeprefix("."), data, rows[0] if rows else None) for ending, data, *rows in files]


class PreparedTask:
    """What a task knows without asking the store."""

    def __init__(self, attempt: _native.Attempt, native: _native.Task) -> None:
        self._attempt, self._native = attempt, native

    @property
    def name(self) -> str:
        """The task's name, with which the names of its files begin. No other task ever has it."""
        return self._native.name

    @property
    def unwritten(self) -> list[str]:
        """The names of the files that are not written yet."""
        return self._native.unwritten

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Task(PreparedTask):
    """A task that is prepared. Its data is written next, and then it is committed, or given up."""

    def write_files(self) -> None:
        """Writes the files that are not written yet to the output, each atomically."""
        while self._native.write_next(self._attempt):
            pass

    def commit(self) -> None:
        """Publishes the task: from now on its rows are done.

        Raises:
            RuntimeError: A file is not written yet.
            ConflictError: The lease is lost. Nothing was committed.
            OutcomeUnknownError: Nobody knows; run the job again, it finds out.
        """
        self._native.commit(self._attempt)

    def abort(self) -> None:
        """Gives the task up: its record and its files go, and its rows are not done."""
        self._native.abort(self._attempt)
