"""Any store as a ``pyarrow.fs.FileSystem``."""

import json

try:
    import pyarrow as pa
    from pyarrow import fs
except ImportError as error:  # pragma: no cover - there is a test in a process of its own
    raise ImportError("this needs pyarrow: pip install 'checkpoint-store[arrow]'") from error

from checkpoint_store._native import Filesystem
from checkpoint_store.errors import AlreadyExistsError, NotFoundError, UnsupportedError


def build(path, storage_options=None):
    """See :func:`checkpoint_store.build_checkpoint_filesystem`."""
    scheme, separator, _ = str(path).partition("://")
    if not separator or scheme in ("file", "local"):
        return fs.LocalFileSystem()
    return fs.PyFileSystem(StoreHandler(scheme, storage_options))


class StoreHandler(fs.FileSystemHandler):
    """What pyarrow asks of a filesystem. Pickles as its scheme and the options that it was given."""

    def __init__(self, scheme, storage_options=None):
        self.scheme = scheme
        self.storage_options = storage_options
        self.store = Filesystem(scheme, json.dumps(storage_options) if storage_options else None)

    def __eq__(self, other):
        if not isinstance(other, StoreHandler):
            return NotImplemented
        return (self.scheme, self.storage_options) == (other.scheme, other.storage_options)

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __reduce__(self):
        return StoreHandler, (self.scheme, self.storage_options)

    def get_type_name(self):
        return self.scheme

    def normalize_path(self, path):
        return self.store.normalize(path)

    def get_file_info(self, paths):
        return [self._info(path) for path in paths]

    def _info(self, path):
        found = None if path.endswith("/") else self.store.stat(path)
        if found is not None:
            return _file(path, found)
        if self.store.has_entries(path):
            return fs.FileInfo(path, fs.FileType.Directory)
        return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector):
        listed = self.store.list(selector.base_dir, selector.recursive)
        infos = [_file(path, known) if known else fs.FileInfo(path, fs.FileType.Directory) for path, known in listed]
        if selector.recursive:
            infos.extend(_directories(selector.base_dir, {path for path, known in listed if known}, infos))
        if not infos and not selector.allow_not_found and self._info(selector.base_dir).type != fs.FileType.Directory:
            raise NotFoundError(f"no such directory: {selector.base_dir}")
        return infos

    def create_dir(self, path, recursive):
        self.store.create_dir(path)

    def delete_dir(self, path):
        self.delete_dir_contents(path, True)

    def delete_dir_contents(self, path, missing_dir_ok=False):
        found = [path for path, known in self.store.list(path, True) if known]
        if not found and not missing_dir_ok and not self.store.has_entries(path):
            raise NotFoundError(f"no such directory: {path}")
        self._delete(found)

    def delete_root_dir_contents(self):
        raise UnsupportedError("the contents of all buckets are not deleted at once")

    def delete_file(self, path):
        if self.store.stat(path) is None:
            raise NotFoundError(f"no such file: {path}")
        self._delete([path])

    def _delete(self, paths):
        for _, failure in self.store.delete(paths):
            raise failure

    def move(self, src, dest):
        renames, _, _ = self.store.abilities(src)
        if renames:
            self.store.rename(src, dest)
            return
        self.copy_file(src, dest)
        self._delete([src])

    def copy_file(self, src, dest):
        self.store.copy(src, dest)

    def open_input_stream(self, path):
        return self.open_input_file(path)

    def open_input_file(self, path):
        return pa.PythonFile(_Reader(self.store, path), mode="r")

    def open_output_stream(self, path, metadata):
        return pa.PythonFile(_Output(self.store, path), mode="w")

    def open_append_stream(self, path, metadata):
        raise UnsupportedError("objects cannot be appended to")


def _file(path, known):
    size, changed, _ = known
    return fs.FileInfo(path, fs.FileType.File, size=size, mtime_ns=changed)


def _directories(base, files, known):
    """The directories between a base and files below it, which a recursive listing does not name."""
    named = {info.path for info in known if info.type == fs.FileType.Directory}
    base = base.rstrip("/")
    found = set()
    for path in files:
        parent = path.rpartition("/")[0]
        while len(parent) > len(base) and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return [fs.FileInfo(path, fs.FileType.Directory) for path in sorted(found - named)]


class _Reader:
    """An object that is read by ranges."""

    def __init__(self, store, path):
        known = store.stat(path)
        if known is None:
            raise NotFoundError(f"no such file: {path}")
        self.store, self.path, self.size, self.at, self.closed = store, path, known[0], 0, False

    def readable(self):
        return True

    def writable(self):
        return False

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=0):
        self.at = (0, self.at, self.size)[whence] + offset
        return self.at

    def read(self, count=-1):
        end = self.size if count is None or count < 0 else min(self.size, self.at + count)
        if self.at >= end:
            return b""
        data = self.store.read(self.path, self.at, end)
        self.at += len(data)
        return data

    def close(self):
        self.closed = True

    def flush(self):
        pass


class _Output:
    """An object that is written as a stream, and is there, whole, once it is closed."""

    def __init__(self, store, path):
        self.writer, self.path, self.at, self.closed = store.open_writer(path), path, 0, False

    def readable(self):
        return False

    def writable(self):
        return True

    def seekable(self):
        return False

    def tell(self):
        return self.at

    def write(self, data):
        data = bytes(data)
        self.writer.write(data)
        self.at += len(data)
        return len(data)

    def flush(self):
        pass

    def close(self):
        if self.closed:
            return
        self.closed = True
        if not self.writer.finish():
            raise AlreadyExistsError(f"an object is there already: {self.path}")
