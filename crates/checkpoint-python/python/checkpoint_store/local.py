"""pyarrow's filesystem of this machine, for directories that may hold records of Ray Data."""

from __future__ import annotations

import os
from typing import Any

from pyarrow import fs

from checkpoint_store import _records
from checkpoint_store._native import Filesystem

__all__ = ["LocalFileSystem"]


class LocalFileSystem(fs.LocalFileSystem):  # type: ignore[misc, unused-ignore]
    """pyarrow's own, and with records as safe as on the other stores of this package.

    A pending record whose committed twin is there is never shown, a record that is published replaces none and may be
    published again, and of a directory the pending records are deleted first.
    """

    def __init__(self, *, use_mmap: bool = False) -> None:
        super().__init__(use_mmap=use_mmap)
        self._use_mmap = use_mmap
        self._store = Filesystem("file")

    def get_file_info(self, paths_or_selector: Any) -> Any:
        """What is at each path, or in a directory; without the litter, which is deleted."""
        infos = super().get_file_info(paths_or_selector)
        if not isinstance(paths_or_selector, fs.FileSelector):
            return infos
        litter = _records.litter(info.path for info in infos if info.is_file)
        if litter:
            _records.sweep(self._store, map(os.path.abspath, litter))
        return [info for info in infos if info.path not in litter]

    def move(self, src: str, dest: str) -> None:
        """Renames a file or a directory.

        Raises:
            ConflictError: A committed record with other IDs is there.
        """
        if _records.is_pending(src) and dest == _records.committed_of(src):
            _records.publish(self._store, os.path.abspath(src), os.path.abspath(dest))
        else:
            super().move(src, dest)

    def delete_file(self, path: str) -> None:
        """Deletes a file. A pending record is gone already when another listing found its twin."""
        gone = _records.is_pending(path) and not os.path.lexists(path)
        if not (gone and os.path.lexists(_records.committed_of(path))):
            super().delete_file(path)

    def delete_dir(self, path: str) -> None:
        """Deletes a directory with all that is below."""
        self._delete_pending(path)
        super().delete_dir(path)

    def delete_dir_contents(self, path: str, *, accept_root_dir: bool = False, missing_dir_ok: bool = False) -> None:
        """Deletes all that is below a directory."""
        self._delete_pending(path)
        super().delete_dir_contents(path, accept_root_dir=accept_root_dir, missing_dir_ok=missing_dir_ok)

    def _delete_pending(self, path: str) -> None:
        # A pending record that outlives its committed twin would be an order to delete the data.
        selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
        for info in super().get_file_info(selector):
            if info.is_file and _records.is_pending(info.path):
                super().delete_file(info.path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._use_mmap,)


def _made(use_mmap: bool) -> LocalFileSystem:
    return LocalFileSystem(use_mmap=use_mmap)
