"""Objects as fsspec's file objects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractBufferedFile

from checkpoint_store._unwinding import handled, is_unwinding
from checkpoint_store.errors import AlreadyExistsError

if TYPE_CHECKING:
    from types import TracebackType

    from checkpoint_store._native import Writer


class CheckpointFile(AbstractBufferedFile):
    """An object that is read ahead by blocks, or written as a stream and there, whole, once it is closed.

    Reads are of one version of the object: when it is replaced meanwhile they raise ``ConflictError``, where the store
    has entity tags. What an error cut short is never published.
    """

    def __init__(self, fs: Any, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> None:
        self._writer: Writer | None = None
        self._process = os.getpid()
        self._handled = handled()
        super().__init__(fs, path, mode, *args, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        etag = self._details["ETag"] if self._details else None
        data: bytes = self.fs.store.read(self.path, start, end, etag=etag)
        return data

    def _initiate_upload(self) -> None:
        self._writer = self.fs.store.open_writer(self.path, if_absent="x" in self.mode)

    def _upload_chunk(self, final: bool = False) -> bool:
        assert self._writer is not None
        try:
            self._writer.write(self.buffer.getvalue())
        except BaseException:
            self.closed = True
            self.discard()
            raise
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        """Publishes what was written: at the end of a transaction, or of the file outside of one.

        Raises:
            AlreadyExistsError: The file was opened to be created, and somebody was first.
        """
        if self._writer is None:
            return
        if not self._writer.finish():
            raise AlreadyExistsError(f"an object is there already: {self.path}")

    def discard(self) -> None:
        """Throws away what was written."""
        if self._writer is not None:
            self._writer.abort()

    def close(self) -> None:
        """Publishes what was written, unless an error is leaving the ``with`` block or a transaction is open."""
        if self.mode == "rb" or self.closed:
            super().close()
            return
        if os.getpid() != self._process:
            # The write goes on in the process that began it.
            self.closed = True
            return
        if is_unwinding(self._handled):
            self.closed = True
            self.discard()
            return
        try:
            if not self.forced:
                self.flush(force=True)
        finally:
            self.closed = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and self.writable():
            self.closed = True
            self.discard()
            return
        self.close()
