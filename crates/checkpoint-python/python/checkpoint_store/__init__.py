"""Checkpoints for long data and AI batch jobs, and any store as a filesystem.

Importing this imports none of pyarrow, fsspec and Ray. What needs one of them says how to install it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkpoint_store import errors
from checkpoint_store._native import __version__
from checkpoint_store.errors import CheckpointError
from checkpoint_store.ids import IdSet
from checkpoint_store.pipeline import Pipeline
from checkpoint_store.store import CheckpointStore

if TYPE_CHECKING:
    import os

    import pyarrow.fs

    from checkpoint_store.filesystem import CheckpointFileSystem as CheckpointFileSystem

__all__ = [
    "CheckpointError",
    "CheckpointFileSystem",
    "CheckpointStore",
    "IdSet",
    "Pipeline",
    "__version__",
    "build_checkpoint_filesystem",
    "errors",
]


def __getattr__(name: str) -> Any:
    if name == "CheckpointFileSystem":
        from checkpoint_store.filesystem import CheckpointFileSystem

        return CheckpointFileSystem
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def build_checkpoint_filesystem(
    path: str | os.PathLike[str], storage_options: dict[str, dict[str, Any]] | None = None
) -> pyarrow.fs.FileSystem:
    """A ``pyarrow.fs.FileSystem`` for the store that a path is in.

    Args:
        path: A URL such as ``cos://bucket/path`` or ``s3://bucket``, a bucket root too, or a path of this machine.
        storage_options: Options by protocol, as fsspec has them: ``{"cos": {"secret_id": "..."}}``. What is not there
            comes from the environment and the vendor's files.

    Returns:
        A filesystem that takes paths without the scheme, ``bucket/path``, as pyarrow and Ray Data give them. For a
        path of this machine it is a ``pyarrow.fs.LocalFileSystem``. Listings are asked afresh each time. On a store, a
        file that is written is there, whole, once it is closed, and never when an error ended its ``with`` block.
        Records of Ray Data are safe in it: see ``docs/ray.md``.

    Raises:
        InvalidConfigError: An option or the path is wrong.
        UnsupportedError: No store has this scheme.
        ImportError: pyarrow is missing.
    """
    from checkpoint_store.arrow import build

    return build(path, storage_options)
