"""A checkpoint for engines written in Python: what is done, and attempts that do the rest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from checkpoint_store import _native, _options
from checkpoint_store.attempt import Attempt
from checkpoint_store.errors import InvalidConfigError
from checkpoint_store.ids import IdSet
from checkpoint_store.reports import CompactReport, RecoverReport, Status, VerifyReport

__all__ = ["CheckpointStore"]


class CheckpointStore:
    """A checkpoint directory on any store. To make one opens nothing.

    It pickles by what it was given, and works in a process after a fork.

    Args:
        path: A URL such as ``s3://bucket/checkpoints/job-1``, or a path of this machine.
        storage_options: Options by protocol, as fsspec has them: ``{"s3": {"endpoint_url": "..."}}``. What is not there
            comes from the environment and the vendor's files.
        output: The job's output directory, for the operations that are given none.
        lease_url: Keeps the lease on another store, for a checkpoint on one without create-only writes. Every user of
            the checkpoint gives the same one.
        assume_exclusive: Your word that nobody else works on this checkpoint, for a store without create-only writes.
        trust_process: Whether an owner whose process is gone from this machine is dead. Say ``False`` in a cluster,
            where workers outlive the process that began: the next attempt then waits until the lease has run out.

    Raises:
        InvalidConfigError: An option is wrong.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        output: str | os.PathLike[str] | None = None,
        lease_url: str | os.PathLike[str] | None = None,
        assume_exclusive: bool = False,
        trust_process: bool = True,
    ) -> None:
        self._path = os.fspath(path)
        self._output = None if output is None else os.fspath(output)
        lease = None if lease_url is None else os.fspath(lease_url)
        self._given: dict[str, Any] = {
            "storage_options": storage_options,
            "output": self._output,
            "lease_url": lease,
            "assume_exclusive": assume_exclusive,
            "trust_process": trust_process,
        }
        self._native = _native.Store(
            self._path,
            _options.as_json(storage_options),
            lease,
            assume_exclusive=assume_exclusive,
            trust_process=trust_process,
        )

    @property
    def path(self) -> str:
        """Where the checkpoint is, as it was given."""
        return self._path

    def status(self) -> Status:
        """Counts what is done. Right beside a live writer.

        Raises:
            NoCheckpointError: There is none.
        """
        return Status._of_json(self._native.status())

    def verify(self, output: str | os.PathLike[str] | None = None) -> VerifyReport:
        """Reads records and data, and says whether they agree. Right beside a live writer.

        Raises:
            NoCheckpointError: There is no checkpoint.
        """
        return VerifyReport._of_json(self._native.verify(self._output_of(output)))

    def recover(
        self, output: str | os.PathLike[str] | None = None, *, dry_run: bool = False, repair: bool = False
    ) -> RecoverReport:
        """Settles what earlier attempts left, without running the job; every attempt does so at its start.

        Args:
            output: The job's output directory.
            dry_run: Say what would be done and do nothing.
            repair: Let rows be computed again whose record is damaged or whose data is gone.

        Raises:
            ConflictError: Somebody owns the checkpoint, or this is another job's output.
            BadDataError: A committed record is damaged, and ``repair`` was not asked for.
        """
        return RecoverReport._of_json(self._native.recover(self._output_of(output), dry_run, repair))

    def compact(self) -> CompactReport:
        """Merges many small records into few.

        Raises:
            ConflictError: Somebody owns the checkpoint.
        """
        return CompactReport._of_json(self._native.compact())

    def remove(self) -> None:
        """Deletes the checkpoint, and nothing of the output.

        Raises:
            NoCheckpointError: There is none.
            ConflictError: Somebody owns it.
        """
        self._native.remove()

    def committed_ids(self) -> _native.ArrowStream:
        """The IDs that are done, as a stream of batches with one column.

        Any library with the Arrow PyCapsule interface takes it, once: ``pyarrow.table(...)``,
        ``pyarrow.RecordBatchReader.from_stream(...)``, ``polars.DataFrame(...)``. Records are read meanwhile.

        Raises:
            NoCheckpointError: There is no checkpoint, or its job has ended and it is being deleted.
            BadDataError: A record is damaged.
        """
        return self._native.committed_ids()

    def id_set(self) -> IdSet:
        """The IDs that are done, as a set. Raises what :meth:`committed_ids` does."""
        return IdSet(self._native.id_set())

    def begin(
        self,
        *,
        id_column: str | None = None,
        id_type: Any = None,
        row_hash: bool = False,
        output: str | os.PathLike[str] | None = None,
        inputs: Iterable[str | os.PathLike[str]] | None = None,
        filter: str | None = None,
        version: str | None = None,
        allow_changed_read: bool = False,
        append: bool = False,
    ) -> Attempt:
        """Begins an attempt: takes the lease, settles what earlier attempts left, and loads the IDs that are done.

        What is recorded of the job must stay as it is from attempt to attempt; what is not said here is taken from
        there, but for ``filter`` and ``version``, which are said each time.

        Args:
            id_column: The name of the ID column. Needed the first time, unless there are row hashes.
            id_type: An Arrow type, or a column of IDs. Needed the first time, unless there are row hashes.
            row_hash: The IDs are row hashes of the files that ``inputs`` names.
            output: The output directory, where the data goes.
            inputs: The files that are read: URLs, directories, globs. They are looked at, and recorded.
            filter: What is read of them, in words of your own.
            version: Your name for this version of the job's logic: another one stops the job.
            allow_changed_read: Go on although what is read, or the version, has changed.
            append: Add to an output that holds data of jobs whose checkpoint is gone.

        Raises:
            ConflictError: Somebody owns the checkpoint, the job is not the one that began it, or the output is
                another's.
            BadDataError: A committed record is damaged.
            InvalidConfigError: A setting is wrong or missing.
        """
        job = self._job_of(id_column, id_type, row_hash, inputs, filter, version)
        return Attempt(self._native.begin(self._output_of(output), job, allow_changed_read, append))

    @staticmethod
    def _job_of(
        id_column: str | None,
        id_type: Any,
        row_hash: bool,
        inputs: Iterable[str | os.PathLike[str]] | None,
        filter: str | None,
        version: str | None,
    ) -> dict[str, Any]:
        return {
            "id_column": id_column,
            "id_type": id_type,
            "row_hash": row_hash,
            "inputs": None if inputs is None else [os.fspath(url) for url in inputs],
            "filter": filter,
            "version": version,
        }

    def _output_of(self, output: str | os.PathLike[str] | None) -> str:
        if output is not None:
            return os.fspath(output)
        if self._output is None:
            raise InvalidConfigError("the output is not known\nhint: give output, here or to CheckpointStore")
        return self._output

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._path, self._given)

    def __repr__(self) -> str:
        return f"CheckpointStore({self._path!r})"


def _opened(path: str, given: dict[str, Any]) -> CheckpointStore:
    return CheckpointStore(path, given["storage_options"], **{k: v for k, v in given.items() if k != "storage_options"})
