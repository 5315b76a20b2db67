"""A checkpoint for ``asyncio``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkpoint_store.aio.attempt import AsyncAttempt
from checkpoint_store.ids import IdSet
from checkpoint_store.reports import CompactReport, RecoverReport, Status, VerifyReport
from checkpoint_store.store import CheckpointStore

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from checkpoint_store import _native

__all__ = ["AsyncCheckpointStore"]


class AsyncCheckpointStore:
    """:class:`~checkpoint_store.CheckpointStore`, awaited: the same arguments, answers and errors.

    Cancelling what is awaited drops the work where it stands. That is as safe as killing the process there: the next
    attempt settles it. One that was being begun may keep the checkpoint until its lease has run out.
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
        self._store = CheckpointStore(
            path,
            storage_options,
            output=output,
            lease_url=lease_url,
            assume_exclusive=assume_exclusive,
            trust_process=trust_process,
        )

    @property
    def path(self) -> str:
        """Where the checkpoint is, as it was given."""
        return self._store.path

    async def status(self) -> Status:
        """:meth:`CheckpointStore.status <checkpoint_store.CheckpointStore.status>`, awaited."""
        return Status._of_json(await self._store._native.status_async())

    async def verify(self, output: str | os.PathLike[str] | None = None) -> VerifyReport:
        """:meth:`CheckpointStore.verify <checkpoint_store.CheckpointStore.verify>`, awaited."""
        return VerifyReport._of_json(await self._store._native.verify_async(self._store._output_of(output)))

    async def recover(
        self, output: str | os.PathLike[str] | None = None, *, dry_run: bool = False, repair: bool = False
    ) -> RecoverReport:
        """:meth:`CheckpointStore.recover <checkpoint_store.CheckpointStore.recover>`, awaited."""
        directory = self._store._output_of(output)
        return RecoverReport._of_json(await self._store._native.recover_async(directory, dry_run, repair))

    async def compact(self) -> CompactReport:
        """:meth:`CheckpointStore.compact <checkpoint_store.CheckpointStore.compact>`, awaited."""
        return CompactReport._of_json(await self._store._native.compact_async())

    async def remove(self) -> None:
        """:meth:`CheckpointStore.remove <checkpoint_store.CheckpointStore.remove>`, awaited."""
        await self._store._native.remove_async()

    async def committed_ids(self) -> _native.ArrowStream:
        """The IDs that are done, as a stream of batches.

        Whoever reads it waits for its records: read it in a thread, ``asyncio.to_thread(pyarrow.table, stream)``.
        """
        return await self._store._native.committed_ids_async()

    async def id_set(self) -> IdSet:
        """:meth:`CheckpointStore.id_set <checkpoint_store.CheckpointStore.id_set>`, awaited."""
        return IdSet(await self._store._native.id_set_async())

    async def begin(
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
    ) -> AsyncAttempt:
        """:meth:`CheckpointStore.begin <checkpoint_store.CheckpointStore.begin>`, awaited."""
        job = self._store._job_of(id_column, id_type, row_hash, inputs, filter, version)
        directory = self._store._output_of(output)
        return AsyncAttempt(await self._store._native.begin_async(directory, job, allow_changed_read, append))

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._store,)

    def __repr__(self) -> str:
        return f"AsyncCheckpointStore({self.path!r})"


def _opened(store: CheckpointStore) -> AsyncCheckpointStore:
    opened = AsyncCheckpointStore.__new__(AsyncCheckpointStore)
    opened._store = store
    return opened
