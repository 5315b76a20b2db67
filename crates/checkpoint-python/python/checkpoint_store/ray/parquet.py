"""Parquet on every store, with the filesystems of this package."""

from __future__ import annotations

from typing import Any

import ray.data

from checkpoint_store.arrow import build, to_pyarrow
from checkpoint_store.errors import InvalidConfigError
from checkpoint_store.ray.context import DatasetContext
from checkpoint_store.ray.filesystems import Options, is_url, unwrap


def read_parquet(
    paths: str | list[str],
    *,
    filesystem: Any = None,
    storage_options: Options | None = None,
    include_row_hash: bool = False,
    **options: Any,
) -> ray.data.Dataset:
    """``ray.data.read_parquet`` for every scheme of this package.

    Args:
        paths: Files and directories of one store, as URLs or as the filesystem takes them.
        filesystem: A pyarrow or fsspec filesystem. Where none is given, that of the first path's scheme.
        storage_options: Options by protocol. Where none are given, those of ``DatasetContext``.
        include_row_hash: Adds the column ``row_hash``: an ID for rows without a key of their own.
        options: All else that Ray's function takes.

    Raises:
        InvalidConfigError: No paths are given.
    """
    given = [paths] if isinstance(paths, str) else list(paths)
    if not given:
        raise InvalidConfigError(
            "no paths are given\nhint: where they are those of remaining_inputs(), nothing is left to do"
        )
    found = _filesystem(given[0], filesystem, storage_options)
    # With a scheme Ray would look for a filesystem of its own first.
    inside = given if found is None else [unwrap(path) for path in given]
    return ray.data.read_parquet(inside, filesystem=found, include_row_hash=include_row_hash, **options)


def write_parquet(
    dataset: ray.data.Dataset,
    path: str,
    *,
    filesystem: Any = None,
    storage_options: Options | None = None,
    **options: Any,
) -> None:
    """``dataset.write_parquet`` for every scheme of this package; see :func:`read_parquet`."""
    found = _filesystem(path, filesystem, storage_options)
    dataset.write_parquet(path if found is None else unwrap(path), filesystem=found, **options)


def _filesystem(path: str, filesystem: Any, storage_options: Options | None) -> Any:
    if filesystem is not None:
        return to_pyarrow(filesystem)
    if not is_url(path):
        return None
    return build(path, storage_options or DatasetContext.get_current().storage_options)
