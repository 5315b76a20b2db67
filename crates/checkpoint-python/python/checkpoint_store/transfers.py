"""Files on their way: to and from this machine, and from one place of a store to another."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.core import has_magic
from fsspec.implementations.local import trailing_sep
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike, other_paths

from checkpoint_store.errors import IsDirectoryError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from checkpoint_store._native import Filesystem

#: Whole files that come or go at the same time, each by pieces.
_FILES = 8


class Transfers(AbstractFileSystem):
    """The part of a filesystem that moves whole files, many at the same time."""

    store: Filesystem

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._put_off = threading.local()

    # To and from this machine.

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copies files to this machine; one after the other when a callback is to be told of each."""
        with self._at_the_same_time(callback):
            super().get(rpath, lpath, recursive, callback, maxdepth, **kwargs)

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copies files of this machine to the store; one after the other when a callback is to be told of each."""
        with self._at_the_same_time(callback):
            super().put(lpath, rpath, recursive, callback, maxdepth, **kwargs)

    def get_file(
        self, rpath: str, lpath: Any = None, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **kwargs: Any
    ) -> None:
        """Copies a file to this machine, where it is there whole or not at all."""
        self._now_or_together(partial(self._get_now, rpath, lpath, callback, outfile, **kwargs))

    def put_file(
        self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any
    ) -> None:
        """Copies a file of this machine to the store.

        Raises:
            AlreadyExistsError: With ``mode="create"``, when there is one; of two that try, one wins.
        """
        self._now_or_together(partial(self._put_now, lpath, rpath, callback, mode, **kwargs))

    def _get_now(self, rpath: str, lpath: Any, callback: Any, outfile: Any, **kwargs: Any) -> None:
        is_open = outfile is not None or isfilelike(lpath)
        if is_open or (os.path.exists(lpath) and not os.path.isfile(lpath)) or self.isdir(rpath):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **kwargs)
            return
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        with self.open(rpath, "rb", **kwargs) as source:
            callback.set_size(source.size)
            part = f"{os.fspath(lpath)}.part-{os.getpid()}-{threading.get_ident()}"
            try:
                with open(part, "wb") as target:
                    while data := source.read(self.blocksize):
                        callback.relative_update(target.write(data))
                os.replace(part, lpath)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.remove(part)
                raise

    def _put_now(self, lpath: Any, rpath: str, callback: Any, mode: str, **kwargs: Any) -> None:
        if mode != "create" or os.path.isdir(lpath):
            super().put_file(lpath, rpath, callback=callback, **kwargs)
            return
        with open(lpath, "rb") as source, self.open(rpath, "xb", **kwargs) as target:
            callback.set_size(os.fstat(source.fileno()).st_size)
            while data := source.read(self.blocksize):
                callback.relative_update(target.write(data))

    def _now_or_together(self, work: Callable[[], None]) -> None:
        together: list[Callable[[], None]] | None = getattr(self._put_off, "together", None)
        if together is None:
            work()
        else:
            together.append(work)

    @contextmanager
    def _at_the_same_time(self, callback: Any) -> Iterator[None]:
        """Puts off what fsspec does one after the other, and does it then."""
        if callback is not DEFAULT_CALLBACK:
            yield
            return
        together: list[Callable[[], None]] = []
        self._put_off.together = together
        try:
            yield
        finally:
            self._put_off.together = None
        pool = ThreadPoolExecutor(_FILES, "checkpoint-store-files")
        try:
            for done in [pool.submit(work) for work in together]:
                done.result()
        finally:
            # After an error, and Ctrl-C, what has not begun is left.
            pool.shutdown(wait=False, cancel_futures=True)

    # From one place to another.

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a file: by the store itself inside one bucket, through here from one to another."""
        self.store.copy(self._strip_protocol(path1), self._strip_protocol(path2))

    def copy(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        on_error: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Copies files and directories, many at the same time; see ``AbstractFileSystem.copy``."""
        on_error = on_error or ("ignore" if recursive else "raise")
        files, directories = self._pairs(path1, path2, recursive, maxdepth)
        for _, target in directories:
            self.store.create_dir(target)
        for _, failure in self.store.copy_many(files):
            if on_error != "ignore" or not isinstance(failure, FileNotFoundError):
                raise failure

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        """Moves files: renames where the store can, else copies all of them and then deletes those that were copied."""
        if path1 == path2:
            return
        files, directories = self._pairs(path1, path2, recursive, maxdepth)
        if not files and not directories:
            raise IsDirectoryError(f"it is a directory: pass recursive=True: {path1}")
        sources = [source for source, _ in files + directories]
        renames, _, real = self.store.abilities(sources[0])
        for _, target in directories:
            self.store.create_dir(target)
        if renames:
            for source, target in files:
                self._rename(source, target)
        else:
            raise_first(self.store.copy_many(files))
            raise_first(self.store.delete([source for source, _ in files]))
        self._remove_directories([source for source, _ in directories], real)

    def _rename(self, source: str, target: str) -> None:
        try:
            self.store.rename(source, target)
        except UnsupportedError:
            # From one bucket to another.
            self.store.copy(source, target)
            self.rm_file(source)

    def _pairs(
        self, path1: Any, path2: Any, recursive: bool, maxdepth: int | None
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """What goes where, files and directories, by fsspec's rules for trailing slashes and patterns."""
        if isinstance(path1, list) and isinstance(path2, list):
            strip = self._strip_protocol
            return [(strip(one), strip(other)) for one, other in zip(path1, path2, strict=True)], []
        is_one = isinstance(path1, (str, os.PathLike))
        kinds = self._expand(path1, recursive, maxdepth)
        if is_one and (not recursive or maxdepth is not None):
            kinds = {name: kind for name, kind in kinds.items() if kind != "directory"}
        sources = list(kinds)
        if not sources:
            return [], []
        to_directory = isinstance(path2, str) and (trailing_sep(path2) or self.isdir(path2))
        magic = is_one and has_magic(os.fspath(path1))
        exists = is_one and (
            (magic and len(sources) == 1) or (not magic and to_directory and not trailing_sep(os.fspath(path1)))
        )
        targets = other_paths(sources, path2, exists=exists, flatten=not is_one)
        pairs = [(one, self._strip_protocol(other)) for one, other in zip(sources, targets, strict=True)]
        files = [pair for pair in pairs if kinds[pair[0]] != "directory"]
        return files, [pair for pair in pairs if kinds[pair[0]] == "directory"]

    def _expand(self, path: Any, recursive: bool, maxdepth: int | None) -> dict[str, str]:
        """What paths and patterns mean: ``file``, ``directory`` or ``missing`` by name, sorted."""
        if recursive and isinstance(path, (str, os.PathLike)) and not has_magic(os.fspath(path)):
            root = self._strip_protocol(path)
            found = self.find(root, maxdepth=maxdepth, withdirs=True, detail=True) or {root: self.info(root)}
            return {name: found[name]["type"] for name in sorted(found)}
        names = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        kinds = self.store.info_many(names)
        return {name: kind for name, (kind, _) in zip(names, kinds, strict=True)}

    def _remove_directories(self, paths: list[str], real: bool) -> None:
        """Deletes empty directories, the deepest first, where the store has any."""
        if not real:
            return
        for depth in sorted({path.count("/") for path in paths}, reverse=True):
            raise_first(self.store.delete([path for path in paths if path.count("/") == depth]))


def raise_first(left: Iterable[tuple[str, BaseException]]) -> None:
    """Raises the first failure of many, if there is one."""
    for _, failure in left:
        raise failure
