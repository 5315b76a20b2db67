"""Attempts and tasks for ``asyncio``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from checkpoint_store.attempt import Owned, PreparedTask, files_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from typing_extensions import Buffer

__all__ = ["AsyncAttempt", "AsyncTask"]


class AsyncAttempt(Owned):
    """:class:`~checkpoint_store.attempt.Attempt`, awaited; :meth:`AsyncCheckpointStore.begin` makes it.

    Use it in an ``async with`` block, and await :meth:`finish` or :meth:`stop` at its end. A block that ends by an
    exception ends the attempt as failed, and one that is cancelled as interrupted; the next attempt goes on from there.
    Any number of tasks may be under way at once.
    """

    async def write(
        self,
        ids: Any,
        data_files: Mapping[str, Buffer | os.PathLike[str]] | Iterable[tuple[Any, ...]],
        *,
        failed_rows: int = 0,
    ) -> AsyncTask:
        """:meth:`Attempt.write <checkpoint_store.attempt.Attempt.write>`, awaited.

        Cancelled in the middle, the task does not count or nobody knows; the next attempt settles it.
        """
        task = await self.prepare(ids, data_files, failed_rows=failed_rows)
        await task.write_files()
        await task.commit()
        return task

    async def prepare(
        self,
        ids: Any,
        data_files: Mapping[str, Buffer | os.PathLike[str]] | Iterable[tuple[Any, ...]] = (),
        *,
        failed_rows: int = 0,
    ) -> AsyncTask:
        """:meth:`Attempt.prepare <checkpoint_store.attempt.Attempt.prepare>`, awaited."""
        native = self._owner()
        return AsyncTask(native, await native.prepare_async(ids, files_of(data_files), failed_rows))

    async def finish(self, keep: bool = False) -> None:
        """:meth:`Attempt.finish <checkpoint_store.attempt.Attempt.finish>`, awaited. Calls under way are waited for."""
        if self._native is not None:
            await self._native.finish_async(keep)

    async def stop(self) -> None:
        """:meth:`Attempt.stop <checkpoint_store.attempt.Attempt.stop>`, awaited. Calls under way are waited for."""
        if self._native is not None:
            await self._native.end_async(False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._native is None or self._native.ended:
            return
        try:
            await self._native.end_async(not isinstance(error, KeyboardInterrupt | asyncio.CancelledError))
        except Exception as failure:
            # The lease then runs out by itself; what went wrong first is what matters.
            if error is None:
                raise
            error.add_note(f"the attempt could not be marked as ended: {failure}")
        if error is None:
            raise RuntimeError("the attempt was left without finish() or stop(); it was ended as failed")


class AsyncTask(PreparedTask):
    """:class:`~checkpoint_store.attempt.Task`, awaited."""

    async def write_files(self) -> None:
        """:meth:`Task.write_files <checkpoint_store.attempt.Task.write_files>`, awaited."""
        await self._native.write_files_async(self._attempt)

    async def commit(self) -> None:
        """:meth:`Task.commit <checkpoint_store.attempt.Task.commit>`, awaited."""
        await self._native.commit_async(self._attempt)

    async def abort(self) -> None:
        """:meth:`Task.abort <checkpoint_store.attempt.Task.abort>`, awaited."""
        await self._native.abort_async(self._attempt)
