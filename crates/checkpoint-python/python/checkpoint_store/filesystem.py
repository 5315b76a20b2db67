"""Any store as an fsspec filesystem."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

try:
    from fsspec.core import has_magic
    from fsspec.spec import AbstractFileSystem
except ImportError as error:  # pragma: no cover - there is a test in a process of its own
    raise ImportError("this needs fsspec: pip install 'checkpoint-store[fsspec]'") from error

from checkpoint_store import _options
from checkpoint_store._native import Filesystem
from checkpoint_store.errors import (
    AlreadyExistsError,
    InvalidConfigError,
    IsDirectoryError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from checkpoint_store.files import CheckpointFile
from checkpoint_store.transfers import Transfers, raise_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from checkpoint_store._native import Known

#: Bytes that are read ahead, and the least that is written at once.
_BLOCK = 8 << 20

#: What fsspec keeps for itself.
_OF_FSSPEC = {"asynchronous", "loop", "skip_instance_cache"}


class _GivenOptions(type(AbstractFileSystem)):  # type: ignore[misc]
    """Tells an instance which options it was given: fsspec mixes those of its files and variables among them.

    The store reads these itself; a pickle must not carry them.
    """

    def __call__(cls, *args: Any, **options: Any) -> Any:
        instance = super().__call__(*args, **options, _given=tuple(sorted(options)))
        instance.storage_options = {
            name: value for name, value in options.items() if name not in ("_given", "skip_instance_cache")
        }
        return instance


class CheckpointFileSystem(Transfers, metaclass=_GivenOptions):
    """A store by its scheme, with the options of the fsspec filesystem that usually serves it.

    Listings are asked afresh each time, unless ``use_listings_cache=True`` is given. Pickles as its scheme and the
    options that it was given, and never what the environment supplied.

    Args:
        scheme: Which store: ``cos``, ``tclake``, ``s3``, ``oss``, ``gs``, ``az``, ``file`` and their other names.
        default_block_size: Bytes that are read ahead, and the least that is written at once; 8 MiB if not given.
        default_cache_type: How files are read ahead: one of fsspec's caches, ``readahead`` if not given.
        options: The options of that protocol, as in ``storage_options``.

    Raises:
        InvalidConfigError: An option is wrong, or there is no scheme.
    """

    protocol: Any = "checkpoint"
    scheme: str = ""
    cachable = True
    #: Bytes that whole files are copied by.
    blocksize = 32 << 20

    def __new__(cls, scheme: str | None = None, **_: Any) -> Any:
        """Paths of this machine have rules of their own."""
        local = cls is CheckpointFileSystem and scheme in ("file", "local")
        return super().__new__(LocalCheckpointFileSystem if local else cls)

    def __init__(
        self,
        scheme: str | None = None,
        *,
        default_block_size: int | None = None,
        default_cache_type: str | None = None,
        _given: Sequence[str] = (),
        **options: Any,
    ) -> None:
        options = {name: value for name, value in options.items() if name in _given}
        super().__init__(**{name: value for name, value in options.items() if name in _OF_FSSPEC})
        self.scheme = scheme or type(self).scheme
        if not self.scheme:
            raise InvalidConfigError("name the store: CheckpointFileSystem(scheme='s3')")
        if type(self).scheme == "":
            self.protocol = self.scheme
        self.default_block_size = default_block_size or _BLOCK
        self.default_cache_type = default_cache_type or "readahead"
        ours = {name: value for name, value in options.items() if name not in _OF_FSSPEC}
        self._keeps_listings = bool(ours.get("use_listings_cache"))
        #: The options by protocol, as they were given.
        self.given_options = {self.scheme: ours} if ours else None
        self.store = Filesystem(self.scheme, _options.as_json(self.given_options))

    @property
    def fsid(self) -> str:
        """A name for the kind of store."""
        return f"checkpoint-{self.scheme}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return _without_scheme(os.fspath(path)).strip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The path as a URL."""
        return f"{self.scheme}://{self._strip_protocol(name)}"

    # What is there.

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """What is known of a file or directory: ``name``, ``size`` in bytes, ``type``, ``ETag``, ``LastModified``.

        Raises:
            NotFoundError: There is none.
        """
        path = self._strip_protocol(path)
        kind, known = self.store.info(path)
        if kind == "missing":
            raise NotFoundError(f"no such file or directory: {path}")
        return _entry(path, known)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is such a file or directory. A store that cannot be asked is an error, not False."""
        return self.store.info(self._strip_protocol(path))[0] != "missing"

    def isdir(self, path: str) -> bool:
        """Whether there is such a directory."""
        return self.store.info(self._strip_protocol(path))[0] == "directory"

    def isfile(self, path: str) -> bool:
        """Whether there is such a file."""
        return self.store.info(self._strip_protocol(path))[0] == "file"

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **_: Any) -> list[Any]:
        """What is in a directory, or the file itself, by name.

        Raises:
            NotFoundError: There is no such file or directory.
        """
        path = self._strip_protocol(path)
        if refresh:
            self.invalidate_cache(path)
        entries = [_entry(name, known) for name, known in self.store.list(path)]
        if not entries:
            itself = self.info(path)
            entries = [itself] if itself["type"] == "file" else []
        entries.sort(key=lambda entry: entry["name"])
        return entries if detail else [entry["name"] for entry in entries]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        """Everything below a path, in one recursive listing: names, or what is known by name."""
        path = self._strip_protocol(path)
        if maxdepth is not None:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        listed = self.store.list(path, True, directories=withdirs)
        entries = [_entry(name, known) for name, known in listed]
        if not entries or withdirs:
            kind, known = self.store.info(path)
            if kind == "file" or (kind == "directory" and withdirs):
                entries.append(_entry(path, known))
        found = {entry["name"]: entry for entry in sorted(entries, key=lambda entry: entry["name"])}
        return found if detail else list(found)

    def created(self, path: str) -> NoReturn:
        """Stores do not tell when an object was first made."""
        raise UnsupportedError(f"stores do not tell when an object was first made; ask for modified: {path}")

    def modified(self, path: str) -> datetime | None:
        """When a file was last changed, by the store's clock; None where it does not say."""
        changed: datetime | None = self.info(path)["LastModified"]
        return changed

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forgets kept listings, of one bucket or of all. There are none unless ``use_listings_cache`` was given."""
        if self._keeps_listings:
            self.store.forget(None if path is None else self._strip_protocol(path))
        super().invalidate_cache(path)

    # Reads.

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """The bytes of a file, or a range of it; negative bounds count from its end."""
        path = self._strip_protocol(path)
        if (start or 0) < 0 or (end or 0) < 0:
            size = self.info(path)["size"]
            start = max(0, size + start) if start is not None and start < 0 else start
            end = max(0, size + end) if end is not None and end < 0 else end
        return self.store.read(path, start, end)

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | list[int | None] | None,
        ends: int | list[int | None] | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Ranges of files, read at the same time, in the order of the paths."""
        if max_gap is not None:
            raise UnsupportedError("ranges are not merged: leave out max_gap")
        if not isinstance(paths, list):
            raise TypeError("paths must be a list")
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("there must be a start and an end for each path")
        asked = [self._bounds(*one) for one in zip(paths, starts, ends, strict=True)]
        return self._read_many(asked, on_error)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        """The bytes of a file; or, of many, of a directory or of a pattern, bytes by name, read at the same time."""
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0], **kwargs)
        if recursive:
            kinds = self.store.info_many(paths)
            paths = [name for name, (kind, _) in zip(paths, kinds, strict=True) if kind != "directory"]
        start, end = kwargs.get("start"), kwargs.get("end")
        read = self._read_many(
            [self._bounds(name, start, end) for name in paths], "raise" if on_error == "raise" else ""
        )
        found = zip(paths, read, strict=True)
        return {name: data for name, data in found if on_error != "omit" or isinstance(data, bytes)}

    def _bounds(self, path: str, start: int | None, end: int | None) -> tuple[str, int | None, int | None]:
        path = self._strip_protocol(path)
        if (start or 0) >= 0 and (end or 0) >= 0:
            return path, start, end
        size = self.info(path)["size"]
        from_end = [None if at is None else max(0, size + at) if at < 0 else at for at in (start, end)]
        return path, from_end[0], from_end[1]

    def _read_many(self, asked: list[tuple[str, int | None, int | None]], on_error: str) -> list[Any]:
        read = self.store.read_many(asked)
        if on_error == "raise":
            for one in read:
                if isinstance(one, BaseException):
                    raise one
        return read

    # Writes.

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        """Writes a whole file.

        Raises:
            AlreadyExistsError: With ``mode="create"``, when there is one.
        """
        if self._intrans:
            super().pipe_file(path, value, mode=mode, **kwargs)
            return
        path = self._strip_protocol(path)
        if not self.store.write(path, value, if_absent=mode == "create"):
            raise AlreadyExistsError(f"an object is there already: {path}")

    def pipe(self, path: Any, value: Any = None, **kwargs: Any) -> None:
        """Writes a whole file, or many at the same time from a mapping of names to bytes."""
        if not isinstance(path, dict) or self._intrans or kwargs:
            super().pipe(path, value, **kwargs)
            return
        objects = [(self._strip_protocol(name), data) for name, data in path.items()]
        raise_first(self.store.write_many(objects))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> CheckpointFile:
        path = self._strip_protocol(path)
        if "a" in mode:
            raise UnsupportedError(f"objects cannot be appended to: write the whole of it again, or another: {path}")
        # Told before anything is written where it is known; who is second in a race is told at the end.
        if "x" in mode and self.store.stat(path) is not None:
            raise AlreadyExistsError(f"an object is there already: {path}")
        kwargs.setdefault("cache_type", self.default_cache_type)
        block_size = block_size or self.default_block_size
        return CheckpointFile(
            self, path, mode, block_size, autocommit=autocommit, cache_options=cache_options, **kwargs
        )

    # Directories and deletes.

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes a directory, where the store has any.

        Raises:
            AlreadyExistsError: There is one already.
        """
        self.makedirs(path, exist_ok=False)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory and those above it, where the store has any; buckets are not made.

        Raises:
            AlreadyExistsError: There is one already, where the store has directories and unless ``exist_ok``.
        """
        path = self._strip_protocol(path)
        if not path.strip("/"):
            return
        if not exist_ok and self.store.abilities(path)[2] and self.exists(path):
            raise AlreadyExistsError(f"it is there already: {path}")
        self.store.create_dir(path)

    def rmdir(self, path: str) -> None:
        """Deletes an empty directory.

        Raises:
            StorageError: It is not empty.
        """
        path = self._strip_protocol(path)
        if self.store.has_entries(path):
            raise StorageError(f"the directory is not empty: {path}")
        self._remove_directories([path], self.store.abilities(path)[2])

    def rm_file(self, path: str) -> None:
        """Deletes a file. One that is not there is no error."""
        raise_first(self.store.delete([self._strip_protocol(path)]))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Deletes files, many to a request, and with ``recursive`` directories with all that is below.

        Raises:
            NotFoundError: A path or pattern means nothing. In a list of names, one that is not there is no error.
            IsDirectoryError: It is a directory, without ``recursive``.
        """
        if isinstance(path, list) and not recursive and not any(has_magic(os.fspath(one)) for one in path):
            raise_first(self.store.delete([self._strip_protocol(one) for one in path]))
            return
        kinds = self._expand(path, recursive, maxdepth)
        directories = [name for name, kind in kinds.items() if kind == "directory"]
        missing = [name for name, kind in kinds.items() if kind == "missing"]
        if missing:
            raise NotFoundError(f"no such file or directory: {missing[0]}")
        if directories and not recursive:
            raise IsDirectoryError(f"it is a directory: pass recursive=True: {directories[0]}")
        files = [name for name, kind in kinds.items() if kind == "file"]
        raise_first(self.store.delete(files))
        if directories:
            self._remove_directories(directories, self.store.abilities(directories[0])[2])


class LocalCheckpointFileSystem(CheckpointFileSystem):
    """Directories of this machine; made by ``CheckpointFileSystem(scheme="file")``."""

    protocol = "file"
    scheme = "file"
    root_marker = "/"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return os.path.abspath(_without_scheme(os.fspath(path)))


class CosFileSystem(CheckpointFileSystem):
    """Tencent COS, by the names ``cos`` and ``cosn``."""

    protocol = ("cos", "cosn")
    scheme = "cos"


class TclakeFileSystem(CheckpointFileSystem):
    """Volumes of a TCLake catalog, by the name ``tclake``: ``tclake://volume/<catalog>/<schema>/<volume>/<path>``."""

    protocol = "tclake"
    scheme = "tclake"


def _without_scheme(path: str) -> str:
    scheme, separator, rest = path.partition("://")
    return rest if separator and "/" not in scheme else path


def _entry(path: str, known: Known | None) -> dict[str, Any]:
    if known is None:
        return {"name": path, "size": 0, "type": "directory", "ETag": None, "LastModified": None}
    size, changed, etag = known
    at = None if changed is None else datetime.fromtimestamp(changed / 1e9, tz=UTC)
    return {"name": path, "size": size, "type": "file", "ETag": etag, "LastModified": at}
