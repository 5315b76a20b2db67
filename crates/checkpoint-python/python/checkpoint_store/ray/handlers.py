"""The filesystems that carry an attempt: what a worker of an older one does is refused, and the first write wins."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from checkpoint_store._records import RECORD, is_pending, publish
from checkpoint_store._unwinding import handled, is_unwinding
from checkpoint_store.arrow import StoreHandler, _Output
from checkpoint_store.errors import ConflictError, NotFoundError
from checkpoint_store.ray import runs
from checkpoint_store.ray.records import check_record
from checkpoint_store.ray.tries import Digest, stands

if TYPE_CHECKING:
    from checkpoint_store._native import Writer
    from checkpoint_store.ray.filesystems import Options

logger = logging.getLogger(__name__)

#: For how long a look at the next attempt serves the questions that change nothing.
_FRESH = 1.0


class Fence:
    """Whether an attempt is still the last one.

    In the driver's process it follows the driver; elsewhere it is the one that was sent there.
    """

    def __init__(self, key: str, control: StoreHandler, place: str, sent: tuple[int, str] | None = None) -> None:
        self.key, self.control, self.place, self._sent = key, control, place, sent
        self._seen = float("-inf")

    def __reduce__(self) -> tuple[Any, ...]:
        return Fence, (self.key, self.control, self.place, self.attempt)

    @property
    def attempt(self) -> tuple[int, str] | None:
        """The number of the attempt, and what tells it from others of its number; none before there is one."""
        return runs.attempt_of(self.key) or self._sent

    def check(self, *, within: float = 0.0) -> None:
        """Refuses to go on once a later attempt exists, or the job has ended and its checkpoint is gone.

        Raises:
            ConflictError: So it is.
        """
        now = time.monotonic()
        if self.attempt is None or now - self._seen < within:
            return
        number, nonce = self.attempt
        store, attempts = self.control.store, f"{self.place}/_meta/attempts"
        later = store.stat(f"{attempts}/{number + 1}.json") is not None
        if later or self._nonce_of(f"{attempts}/{number}.json") != nonce:
            what = "a later one has begun" if later else "its job has ended"
            raise ConflictError(
                f"attempt {number} no longer owns the checkpoint, {what}: url={self.place}\nhint: this worker is of a "
                "run that is over; what it did after that does not count"
            )
        self._seen = now

    def _nonce_of(self, path: str) -> str | None:
        try:
            return str(json.loads(self.control.store.read(path))["nonce"])
        except NotFoundError:
            return None


class _Fenced(StoreHandler):
    """A filesystem with a fence around the place that a run writes to."""

    def __init__(self, scheme: str, storage_options: Options | None, root: str, fence: Fence) -> None:
        super().__init__(scheme, storage_options)
        self.root, self.fence = root.rstrip("/"), fence

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.scheme, self.storage_options, self.root, self.fence)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Fenced) or type(other) is not type(self):
            return NotImplemented
        ours = (self.scheme, self.storage_options, self.root, self.fence.key)
        return ours == (other.scheme, other.storage_options, other.root, other.fence.key)

    def __hash__(self) -> int:
        return hash((self.root, self.fence.key))

    def _is_inside(self, path: str) -> bool:
        return path.rstrip("/") == self.root or path.startswith(self.root + "/")


class CheckpointHandler(_Fenced):
    """The checkpoint directory, as Ray's own code reads and writes it."""

    def __init__(self, scheme: str, storage_options: Options | None, root: str, fence: Fence) -> None:
        super().__init__(scheme, storage_options, root, fence)
        self._written: dict[str, bytes] = {}

    def _is_record(self, path: str) -> bool:
        return path.startswith(self.root + "/") and path.endswith(RECORD) and "/" not in path[len(self.root) + 1 :]

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """Ray builds no manager where the directory is not there, so it always is."""
        if any(self._is_inside(path) for path in paths):
            self.fence.check(within=_FRESH)
        root = fs.FileInfo(self.root, fs.FileType.Directory)
        others = iter(super().get_file_info([path for path in paths if path.rstrip("/") != self.root]))
        return [root if path.rstrip("/") == self.root else next(others) for path in paths]

    def create_dir(self, path: str, recursive: bool) -> None:
        """The directory is there as soon as the attempt has begun."""
        if not self._is_inside(path):
            super().create_dir(path, recursive)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        if not self._is_record(path):
            return super().open_output_stream(path, metadata)
        self.fence.check()
        return pa.PythonFile(_Record(self, path), mode="w")

    def put_record(self, path: str, data: bytes) -> None:
        """Writes a record once its IDs were found to be IDs. A task that is tried again writes its pending one anew."""
        check_record(data, path)
        self.fence.check()
        self.store.write(path, data)
        if is_pending(path):
            self._written[path] = data

    def move(self, src: str, dest: str) -> None:
        """Publishes a record, and never replaces one. Asked again, it is done already."""
        if not (self._is_record(src) and self._is_record(dest)):
            super().move(src, dest)
            return
        self.fence.check()
        publish(self.store, src, dest, self._written.pop(src, None))

    def delete_file(self, path: str) -> None:
        self.fence.check()
        super().delete_file(path)

    def delete_dir(self, path: str) -> None:
        """The end of the job deletes the checkpoint, in an order that can be killed anywhere; Ray asks afterwards."""
        if path.rstrip("/") != self.root:
            super().delete_dir(path)


class OutputHandler(_Fenced):
    """The output. A file is there, whole, once it is closed; of two tries of one task the first wins."""

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        if not self._is_inside(path):
            return super().open_output_stream(path, metadata)
        self.fence.check()
        return pa.PythonFile(_Data(self, path), mode="w")


class _Record(_Output):
    """A record that is written when it is closed."""

    def __init__(self, handler: CheckpointHandler, path: str) -> None:
        self.handler, self.path, self.parts = handler, path, bytearray()
        self.at, self.closed, self.handled = 0, False, handled()

    def write(self, data: Any) -> int:
        self.parts += data
        count = memoryview(data).nbytes
        self.at += count
        return count

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if not is_unwinding(self.handled):
            self.handler.put_record(self.path, bytes(self.parts))


class _Data(_Output):
    """A data file. What another try of the same task has written stays, where it serves this one too."""

    def __init__(self, handler: OutputHandler, path: str) -> None:
        super().__init__(handler.store, path)
        self.handler, self.path, self.digest = handler, path, Digest()

    def write(self, data: Any) -> int:
        self.digest.add(memoryview(data))
        return super().write(data)

    def _open(self) -> Writer:
        _, creates, _ = self.store.abilities(self.path)
        return self.store.open_writer(self.path, if_absent=creates)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if is_unwinding(self.handled):
            self.writer.abort()
            return
        try:
            self.handler.fence.check()
        except BaseException:
            self.writer.abort()
            raise
        if not self.writer.finish():
            self._check_first()

    def _check_first(self) -> None:
        found, fence = self.store.read(self.path), self.handler.fence
        if self.digest.is_of(found):
            return
        if not stands(found, self.path.rpartition("/")[2], fence.control.store, fence.place):
            raise ConflictError(
                f"another try of this task has written other rows to its file: path={self.path}\nhint: nothing was "
                "replaced; run the job again, it computes the task anew. A task that is tried again must give the same "
                "rows to the same files"
            )
        logger.debug("another try of the same task has written this file: %s", self.path)
