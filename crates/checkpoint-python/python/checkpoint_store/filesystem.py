"""Any store as an fsspec filesystem."""

import json

try:
    from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
except ImportError as error:  # pragma: no cover - there is a test in a process of its own
    raise ImportError("this needs fsspec: pip install 'checkpoint-store[fsspec]'") from error

from checkpoint_store._native import Filesystem
from checkpoint_store.errors import AlreadyExistsError, NotFoundError

_BLOCK = 8 << 20


class CheckpointFileSystem(AbstractFileSystem):
    """A store by its scheme, with the options of the fsspec filesystem that usually serves it.

    Listings are asked afresh each time, unless ``use_listings_cache=True`` is given.

    Args:
        scheme: Which store: ``cos``, ``tclake``, ``s3``, ``oss``, ``gs``, ``az`` and their other names.
        options: The options of that protocol, as in ``storage_options``.
    """

    protocol = "checkpoint"
    scheme = None
    cachable = True

    def __init__(self, scheme=None, **options):
        super().__init__(scheme=scheme, **options)
        self.scheme = scheme or type(self).scheme
        if self.scheme is None:
            raise ValueError("name the store: CheckpointFileSystem(scheme='s3')")
        ours = {name: value for name, value in options.items() if name not in _FSSPEC_OPTIONS}
        self.store = Filesystem(self.scheme, json.dumps({self.scheme: ours}) if ours else None)

    @property
    def fsid(self):
        return f"checkpoint-{self.scheme}"

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = str(path)
        return path.partition("://")[2].strip("/") if "://" in path else path.strip("/")

    def unstrip_protocol(self, name):
        return name if "://" in name else f"{self.scheme}://{self._strip_protocol(name)}"

    def ls(self, path, detail=True, **_):
        path = self._strip_protocol(path)
        entries = [_entry(name, known) for name, known in self.store.list(path)]
        if not entries:
            known = self.store.stat(path)
            if known is None:
                raise NotFoundError(f"no such file or directory: {path}")
            entries = [_entry(path, known)]
        entries.sort(key=lambda entry: entry["name"])
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path, **_):
        path = self._strip_protocol(path)
        known = self.store.stat(path)
        if known is None and self.store.has_entries(path):
            return _entry(path, None)
        if known is None:
            raise NotFoundError(f"no such file or directory: {path}")
        return _entry(path, known)

    def exists(self, path, **_):
        path = self._strip_protocol(path)
        return self.store.stat(path) is not None or self.store.has_entries(path)

    def find(self, path, maxdepth=None, withdirs=False, detail=False, **kwargs):
        path = self._strip_protocol(path)
        if maxdepth is not None or withdirs:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        entries = [_entry(name, known) for name, known in self.store.list(path, True) if known]
        known = None if entries else self.store.stat(path)
        if known is not None:
            entries = [_entry(path, known)]
        found = {entry["name"]: entry for entry in sorted(entries, key=lambda entry: entry["name"])}
        return found if detail else list(found)

    def created(self, path):
        return self.modified(path)

    def modified(self, path):
        return self.info(path)["LastModified"]

    def cat_file(self, path, start=None, end=None, **_):
        path = self._strip_protocol(path)
        if (start or 0) < 0 or (end or 0) < 0:
            size = self.info(path)["size"]
            start = max(0, size + start) if (start or 0) < 0 else start
            end = max(0, size + end) if (end or 0) < 0 else end
        return self.store.read(path, start, end)

    def pipe_file(self, path, value, mode="overwrite", **_):
        path = self._strip_protocol(path)
        if not self.store.write(path, bytes(value), if_absent=mode == "create"):
            raise AlreadyExistsError(f"an object is there already: {path}")

    def cp_file(self, path1, path2, **_):
        self.store.copy(self._strip_protocol(path1), self._strip_protocol(path2))

    def mkdir(self, path, create_parents=True, **_):
        self.store.create_dir(self._strip_protocol(path))

    def makedirs(self, path, exist_ok=False):
        self.store.create_dir(self._strip_protocol(path))

    def rmdir(self, path):
        self.store.delete([self._strip_protocol(path)])

    def rm_file(self, path):
        self._delete([self._strip_protocol(path)])

    def rm(self, path, recursive=False, maxdepth=None):
        paths = path if isinstance(path, list) else [path]
        self._delete([one for one in self.expand_path(paths, recursive=recursive, maxdepth=maxdepth)])

    def _delete(self, paths):
        for _, failure in self.store.delete(paths):
            raise failure

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        path = self._strip_protocol(path)
        # Told before anything is written where it is known; who is second in a race is told at the end.
        if "x" in mode and self.store.stat(path) is not None:
            raise AlreadyExistsError(f"an object is there already: {path}")
        return CheckpointFile(
            self,
            path,
            mode,
            block_size or _BLOCK,
            autocommit,
            cache_options=cache_options,
            **kwargs,
        )


class CheckpointFile(AbstractBufferedFile):
    """An object that is read ahead by blocks, or written as a stream and there, whole, once it is closed."""

    def _fetch_range(self, start, end):
        return self.fs.store.read(self.path, start, end)

    def _initiate_upload(self):
        self.writer = self.fs.store.open_writer(self.path, if_absent="x" in self.mode)

    def _upload_chunk(self, final=False):
        self.writer.write(self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self):
        """Publishes what was written: at the end of a transaction, or of the file outside of one."""
        if not self.writer.finish():
            raise AlreadyExistsError(f"an object is there already: {self.path}")

    def discard(self):
        """Throws away what was written."""
        writer = getattr(self, "writer", None)
        if writer is not None:
            writer.abort()

    def __exit__(self, kind, value, traceback):
        if kind is not None and self.writable():
            # Half of a file must not be taken for the whole.
            self.closed = True
            self.discard()
            return
        super().__exit__(kind, value, traceback)


class CosFileSystem(CheckpointFileSystem):
    """Tencent COS."""

    protocol = ("cos", "cosn")
    scheme = "cos"


class TclakeFileSystem(CheckpointFileSystem):
    """Volumes of a TCLake catalog."""

    protocol = "tclake"
    scheme = "tclake"


#: What fsspec itself takes.
_FSSPEC_OPTIONS = {
    "asynchronous",
    "loop",
    "skip_instance_cache",
    "use_listings_cache",
    "listings_expiry_time",
    "max_paths",
}


def _entry(path, known):
    if known is None:
        return {"name": path, "size": 0, "type": "directory"}
    size, changed, etag = known
    changed = None if changed is None else _time(changed)
    return {"name": path, "size": size, "type": "file", "ETag": etag, "LastModified": changed}


def _time(nanoseconds):
    from datetime import datetime, timezone

    return datetime.fromtimestamp(nanoseconds / 1e9, tz=timezone.utc)
