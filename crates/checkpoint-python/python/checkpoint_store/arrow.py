"""Any store as a ``pyarrow.fs.FileSystem``."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

try:
    import pyarrow as pa
    from pyarrow import fs
except ImportError as error:  # pragma: no cover - there is a test in a process of its own
    raise ImportError("this needs pyarrow: pip install 'checkpoint-store[arrow]'") from error

from checkpoint_store import _options, _records
from checkpoint_store._native import Filesystem
from checkpoint_store._retry_words import retried
from checkpoint_store._unwinding import handled, is_unwinding
from checkpoint_store.errors import (
    AlreadyExistsError,
    InvalidConfigError,
    IsDirectoryError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from checkpoint_store.local import LocalFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from checkpoint_store._native import Kind, Known, Writer

__all__ = ["StoreHandler", "build", "to_pyarrow"]

#: Bytes that a stream reads ahead.
_AHEAD = 8 << 20

_LOCAL = ("file", "local")


class _NoAppend(UnsupportedError, pa.ArrowNotImplementedError):
    """As pyarrow's own filesystems refuse to append."""


def build(path: str | os.PathLike[str], storage_options: dict[str, dict[str, Any]] | None = None) -> fs.FileSystem:
    """See :func:`checkpoint_store.build_checkpoint_filesystem`."""
    text = os.fspath(path)
    scheme, separator, _ = text.partition("://")
    is_local = not separator or "/" in scheme or scheme in _LOCAL
    handler = StoreHandler("file" if is_local else scheme, storage_options)
    handler.store.normalize(text)
    return LocalFileSystem() if is_local else fs.PyFileSystem(handler)


def to_pyarrow(filesystem: Any) -> fs.FileSystem:
    """A pyarrow filesystem from one of pyarrow or of fsspec.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(filesystem, fs.FileSystem):
        return filesystem
    if isinstance(filesystem, fs.FileSystemHandler):
        return fs.PyFileSystem(filesystem)
    fsspec = sys.modules.get("fsspec")
    if fsspec is not None and isinstance(filesystem, fsspec.AbstractFileSystem):
        own = sys.modules.get("checkpoint_store.filesystem")
        if own is not None and isinstance(filesystem, own.CheckpointFileSystem):
            return fs.PyFileSystem(StoreHandler(filesystem.scheme, filesystem.given_options))
        return fs.PyFileSystem(fs.FSSpecHandler(filesystem))
    raise TypeError(f"a pyarrow.fs.FileSystem or an fsspec filesystem is wanted, not a {type(filesystem).__name__}")


class StoreHandler(fs.FileSystemHandler):
    """What pyarrow asks of a filesystem, by paths without the scheme: ``bucket/key``.

    Pickles as its scheme and the options that it was given.
    """

    def __init__(self, scheme: str, storage_options: dict[str, dict[str, Any]] | None = None) -> None:
        self.scheme = scheme
        self.storage_options = storage_options
        self.store = retried(Filesystem(scheme, _options.as_json(storage_options)))
        #: Directories that were made on a store that has none. They are there for who made them, and for those it was
        #: sent to: Ray before 2.56 makes the checkpoint's directory and then looks into it, wherever it is.
        self._made: set[str] = set()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoreHandler):
            return NotImplemented
        return (self.scheme, self.storage_options) == (other.scheme, other.storage_options)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.scheme)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.scheme, self.storage_options), {"_made": self._made} if self._made else None

    def get_type_name(self) -> str:
        """The scheme."""
        return self.scheme

    def normalize_path(self, path: str) -> str:
        """The path without a scheme and without a final slash; one that means nothing as it is.

        This never raises: where pyarrow roots a filesystem at a path, an exception here ends the process.
        """
        if self.scheme in _LOCAL and not os.path.isabs(path):
            return path
        try:
            return self.store.normalize(path)
        except InvalidConfigError:
            return path if path.strip("/") else ""

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """What is at each path, asked at the same time."""
        infos = self.store.info_many(list(paths))
        found = [_info(path, kind, known) for path, (kind, known) in zip(paths, infos, strict=True)]
        if not self._made:
            return found
        made = {path for path in paths if self._is_made(path)}
        return [_info(one.path, "directory", None) if not one.is_file and one.path in made else one for one in found]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """What is in a directory, or everything below it. A pending record whose committed twin is there is not shown.

        Raises:
            NotFoundError: There is no such directory, unless that is allowed; or no such bucket.
        """
        base = selector.base_dir
        listed = self.store.list(base, selector.recursive, directories=selector.recursive)
        if not listed:
            kind, _ = self.store.info(base)
            if kind == "file":
                raise StorageError(f"it is a file, not a directory: {base}")
            if kind == "missing" and not selector.allow_not_found and not self._is_made(base):
                raise NotFoundError(f"no such directory: {base}")
        litter = _records.litter(path for path, known in listed if known)
        if litter:
            _records.sweep(self.store, litter)
        shown = [(path, known) for path, known in listed if path not in litter]
        return [_info(path, "file" if known else "directory", known) for path, known in shown]

    def create_dir(self, path: str, recursive: bool) -> None:
        """Makes a directory, where the store has any; elsewhere it is one for this filesystem.

        Raises:
            NotFoundError: There is no directory above it, and ``recursive`` is false.
        """
        parent = os.path.dirname(path.rstrip("/"))
        if not recursive and parent and self._has_directories(path) and self.store.info(parent)[0] != "directory":
            raise NotFoundError(f"no such directory: {parent}")
        self.store.create_dir(path)
        if not self._has_directories(path):
            self._made.add(self.normalize_path(path))

    def delete_dir(self, path: str) -> None:
        """Deletes a directory with all that is below.

        Raises:
            NotFoundError: There is none.
        """
        self._delete_contents(path, True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Deletes all that is below a directory.

        Raises:
            NotFoundError: There is no such directory, unless that is allowed.
        """
        if missing_dir_ok and self.store.info(path)[0] == "missing":
            return
        self._delete_contents(path, False)

    def delete_root_dir_contents(self) -> None:
        """Refused."""
        raise UnsupportedError("the contents of all buckets are not deleted at once")

    def delete_file(self, path: str) -> None:
        """Deletes a file.

        Raises:
            NotFoundError: There is none.
        """
        if self.store.stat(path) is None:
            if _records.is_pending(path) and self.store.stat(_records.committed_of(path)) is not None:
                return
            raise NotFoundError(f"no such file: {path}")
        self.delete_files([path])

    def delete_files(self, paths: list[str]) -> None:
        """Deletes files, many to a request. One that is not there is no error."""
        _raise_first(self.store.delete(paths))

    def move(self, src: str, dest: str) -> None:
        """Moves a file: renames it where the store can, else copies it and deletes it then.

        A pending record that becomes a committed one replaces none, and may be moved again.

        Raises:
            NotFoundError: There is none.
            IsDirectoryError: It is a directory.
        """
        if _records.is_pending(src) and dest == _records.committed_of(src):
            _records.publish(self.store, src, dest)
            return
        if self.store.info(src)[0] == "directory":
            raise IsDirectoryError(f"directories are not moved: {src}")
        renames, _, _ = self.store.abilities(src)
        if renames:
            self.store.rename(src, dest)
            return
        self.copy_file(src, dest)
        self.delete_files([src])

    def copy_file(self, src: str, dest: str) -> None:
        """Copies a file."""
        self.store.copy(src, dest)

    def open_input_stream(self, path: str) -> pa.PythonFile:
        """A file that is read from its start to its end, ahead."""
        return pa.PythonFile(_Reader(self.store, path, _AHEAD), mode="r")

    def open_input_file(self, path: str) -> pa.PythonFile:
        """A file that is read by ranges."""
        return pa.PythonFile(_Reader(self.store, path, 0), mode="r")

    def open_output_stream(self, path: str, metadata: dict[str, str] | None) -> pa.PythonFile:
        """A file that is there, whole, once it is closed. Its metadata is not stored."""
        return pa.PythonFile(_Output(self.store, path), mode="w")

    def open_append_stream(self, path: str, metadata: dict[str, str] | None) -> pa.PythonFile:
        """Refused."""
        raise _NoAppend(f"objects cannot be appended to: write the whole of it again, or another: {path}")

    def _has_directories(self, path: str) -> bool:
        return self.store.abilities(path)[2]

    def _is_made(self, path: str) -> bool:
        base = self.normalize_path(path)
        return any(made == base or _is_below(made, base) for made in self._made)

    def _delete_contents(self, path: str, itself: bool) -> None:
        listed = self.store.list(path, True, directories=True)
        if not listed and self.store.info(path)[0] != "directory" and not self._is_made(path):
            raise NotFoundError(f"no such directory: {path}")
        files = [name for name, known in listed if known]
        # A pending record that outlives its committed twin would be an order to delete the data.
        self.delete_files([name for name in files if _records.is_pending(name)])
        self.delete_files([name for name in files if not _records.is_pending(name)])
        if not self._has_directories(path):
            base = self.normalize_path(path)
            self._made = {made for made in self._made if not (made == base and itself) and not _is_below(made, base)}
            return
        directories = [name for name, known in listed if not known] + ([path.rstrip("/")] if itself else [])
        for depth in sorted({name.count("/") for name in directories}, reverse=True):
            _raise_first(self.store.delete([name for name in directories if name.count("/") == depth]))


def _is_below(path: str, base: str) -> bool:
    return path.startswith(f"{base}/")


def _info(path: str, kind: Kind, known: Known | None) -> fs.FileInfo:
    if known is not None:
        return fs.FileInfo(path, fs.FileType.File, size=known[0], mtime_ns=known[1])
    return fs.FileInfo(path, fs.FileType.Directory if kind == "directory" else fs.FileType.NotFound)


def _raise_first(left: Iterable[tuple[str, BaseException]]) -> None:
    for _, failure in left:
        raise failure


class _Reader:
    """An object that is read by ranges, all of one version where the store has entity tags."""

    def __init__(self, store: Filesystem, path: str, ahead: int) -> None:
        known = store.stat(path)
        if known is None:
            raise NotFoundError(f"no such file: {path}")
        self.size, _, self.etag = known
        self.store, self.path, self.ahead = store, path, ahead
        self.at = 0
        self.closed = False
        #: What was read ahead, and where it begins.
        self.held, self.held_from = b"", 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        at = (0, self.at, self.size)[whence] + offset
        if at < 0:
            raise InvalidConfigError(f"a place before the start of the file: {at}")
        self.at = at
        return at

    def read(self, count: int | None = -1) -> bytes:
        end = self.size if count is None or count < 0 else min(self.size, self.at + count)
        if self.at >= end:
            return b""
        if not self.held_from <= self.at <= end <= self.held_from + len(self.held):
            until = min(self.size, max(end, self.at + self.ahead))
            data = self.store.read(self.path, self.at, until, etag=self.etag)
            if until == end:
                self.at = end
                return data
            self.held, self.held_from = data, self.at
        start = self.at - self.held_from
        data = self.held[start : start + end - self.at]
        self.at += len(data)
        return data

    def close(self) -> None:
        self.closed = True
        self.held = b""

    def flush(self) -> None:
        pass


class _Output:
    """An object that is written as a stream, and there, whole, once it is closed; never when an error cut it short."""

    def __init__(self, store: Filesystem, path: str) -> None:
        self.store = store
        self.path = path
        self.at = 0
        self.closed = True
        self.handled = handled()
        self.writer = self._open()
        self.closed = False

    def _open(self) -> Writer:
        return self.store.open_writer(self.path)

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self.at

    def write(self, data: Any) -> int:
        count = memoryview(data).nbytes
        self.writer.write(data)
        self.at += count
        return count

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if is_unwinding(self.handled):
            self.writer.abort()
        elif not self.writer.finish():
            raise AlreadyExistsError(f"an object is there already: {self.path}")

    def __del__(self) -> None:
        # Whether it is whole is not known.
        if not getattr(self, "closed", True):
            message = f"the file was never closed, and is not there: {self.path}"
            warnings.warn(message, RuntimeWarning, source=self, stacklevel=1)
