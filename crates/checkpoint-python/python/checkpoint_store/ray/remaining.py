"""The files of an input that are still to be read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyarrow import fs

from checkpoint_store.arrow import build, to_pyarrow
from checkpoint_store.errors import NoCheckpointError
from checkpoint_store.ray.context import DatasetContext
from checkpoint_store.ray.filesystems import unwrap
from checkpoint_store.store import CheckpointStore

if TYPE_CHECKING:
    from checkpoint_store.ids import IdSet
    from checkpoint_store.ray.filesystems import Options


#: Footers that are read at the same time.
_AT_ONCE = 16


@dataclass(frozen=True)
class RemainingFile:
    """A Parquet file with rows that are not done.

    Attributes:
        path: As the filesystem takes it: ``bucket/key``.
        row_groups: Those that have such rows, or may have.
        rows: Their rows, done or not.
    """

    path: str
    row_groups: tuple[int, ...]
    rows: int


def remaining_inputs(
    paths: str | list[str],
    checkpoint: str,
    *,
    filesystem: Any = None,
    storage_options: Options | None = None,
) -> list[RemainingFile]:
    """What of an input a resume has to read: files and row groups that are done as a whole are left out.

    With row hashes the records tell of each file. With integers the statistics of a row group do, where all integers
    between its bounds are done. Of other IDs every file remains: give them to ``read_parquet`` all the same, since rows
    that are done are left out there. With row hashes read whole files, as the position of a row is part of its hash.

    Args:
        paths: Parquet files and directories of one store.
        checkpoint: The checkpoint of the job. Where there is none, everything remains.
        filesystem: A pyarrow or fsspec filesystem for the input. Where none is given, that of the first path.
        storage_options: Options by protocol, for the input and the checkpoint; else those of ``DatasetContext``.

    Raises:
        NotFoundError: A path is not there.
        CheckpointError: The checkpoint cannot be read.
    """
    given = [paths] if isinstance(paths, str) else list(paths)
    if not given:
        return []
    options = storage_options or DatasetContext.get_current().storage_options
    source = to_pyarrow(filesystem) if filesystem is not None else build(given[0], options)
    store = CheckpointStore(checkpoint, options)
    try:
        ids, id_column = store.id_set(), store.status().id_column
    except NoCheckpointError:
        ids, id_column = None, None
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        left = list(pool.map(lambda path: _left(source, path, ids, id_column), _files(source, given)))
    return [file for file in left if file.row_groups]


def _files(source: fs.FileSystem, paths: list[str]) -> list[str]:
    found: list[str] = []
    for info in source.get_file_info([unwrap(path) for path in paths]):
        if info.type == fs.FileType.Directory:
            inside = source.get_file_info(fs.FileSelector(info.path, recursive=True))
            found.extend(one.path for one in inside if one.type == fs.FileType.File and one.path.endswith(".parquet"))
        elif info.type == fs.FileType.File:
            found.append(info.path)
        else:
            raise FileNotFoundError(f"no such file or directory: {info.path}")
    return sorted(path for path in found if not path.rpartition("/")[2].startswith((".", "_")))


def _left(source: fs.FileSystem, path: str, ids: IdSet | None, id_column: str | None) -> RemainingFile:
    with source.open_input_file(path) as file:
        footer = pq.read_metadata(file)
    groups, rows, start = [], 0, 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        stop = start + group.num_rows
        if ids is None or not _is_done(ids, path, group, (start, stop), id_column):
            groups.append(number)
            rows += group.num_rows
        start = stop
    return RemainingFile(path, tuple(groups), rows)


def _is_done(ids: IdSet, path: str, group: Any, positions: tuple[int, int], id_column: str | None) -> bool:
    done = ids.count_rows(path, *positions)
    if done is not None:
        return done == positions[1] - positions[0]
    for number in range(group.num_columns):
        column = group.column(number)
        statistics = column.statistics
        if column.path_in_schema != id_column or statistics is None or not statistics.has_min_max:
            continue
        first, last = statistics.min, statistics.max
        if not (isinstance(first, int) and isinstance(last, int)) or statistics.null_count != 0:
            return False
        done = ids.count_between(first, last)
        return done is not None and done == last - first + 1
    return False
