"""A filesystem for ``asyncio``."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from checkpoint_store import _options
from checkpoint_store._native import Filesystem
from checkpoint_store.errors import AlreadyExistsError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from checkpoint_store._native import Kind, Known

__all__ = ["AsyncFilesystem"]


class AsyncFilesystem:
    """A store by its scheme, by paths without the scheme: ``bucket/key``. Pickles as what it was given.

    Args:
        scheme: Which store: ``cos``, ``tclake``, ``s3``, ``oss``, ``gs``, ``az``, ``file`` and their other names.
        storage_options: Options by protocol, as fsspec has them: ``{"cos": {"secret_id": "..."}}``.

    Raises:
        InvalidConfigError: An option is wrong.
    """

    def __init__(self, scheme: str, storage_options: dict[str, dict[str, Any]] | None = None) -> None:
        self.scheme = scheme
        self.storage_options = storage_options
        self._store = Filesystem(scheme, _options.as_json(storage_options))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.scheme, self.storage_options)

    async def info(self, path: str) -> tuple[Kind, Known | None]:
        """What is at a path: ``file`` with what is known of it, ``directory`` or ``missing``."""
        return await self._store.info_async(path)

    async def stat(self, path: str) -> Known:
        """Size in bytes, time of the last change in nanoseconds since 1970, and entity tag of an object.

        Raises:
            NotFoundError: There is none.
        """
        known = await self._store.stat_async(path)
        if known is None:
            raise NotFoundError(f"no such file: {path}")
        return known

    async def list(self, path: str, *, recursive: bool = False) -> builtins.list[tuple[str, Known | None]]:
        """What is in a directory, or everything below it: paths, and what is known of files; None for directories."""
        return await self._store.list_async(path, recursive, directories=recursive)

    async def read(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """The bytes of an object, or those from ``start`` up to ``end``.

        Raises:
            NotFoundError: There is none.
        """
        return await self._store.read_async(path, start, end)

    async def read_many(
        self, ranges: Iterable[tuple[str, int | None, int | None]]
    ) -> builtins.list[bytes | BaseException]:
        """Ranges of objects, read at the same time: bytes or the exception, for each path, start and end."""
        return await self._store.read_many_async([*ranges])

    async def write(self, path: str, data: Any, *, if_absent: bool = False) -> None:
        """Writes an object whole. ``data`` is bytes or any buffer.

        Raises:
            AlreadyExistsError: With ``if_absent``, when there is one.
        """
        if not await self._store.write_async(path, data, if_absent=if_absent):
            raise AlreadyExistsError(f"an object is there already: {path}")

    async def copy(self, source: str, target: str, *, if_absent: bool = False) -> None:
        """Copies an object.

        Raises:
            NotFoundError: There is no source.
            AlreadyExistsError: With ``if_absent``, when there is a target.
        """
        if not await self._store.copy_async(source, target, if_absent=if_absent):
            raise AlreadyExistsError(f"an object is there already: {target}")

    async def delete(self, *paths: str) -> None:
        """Deletes objects, many to a request. One that is not there is no error.

        Raises:
            CheckpointError: The first that could not be deleted; the others were.
        """
        for _, failure in await self._store.delete_async([*paths]):
            raise failure
