"""Ray's own configuration, with everything of ours in it."""

from __future__ import annotations

from typing import Any

from pyarrow import fs
from ray.data.checkpoint import CheckpointConfig

from checkpoint_store.arrow import StoreHandler
from checkpoint_store.errors import InvalidConfigError
from checkpoint_store.ray.context import DatasetContext
from checkpoint_store.ray.filesystems import Options, locate, unwrap
from checkpoint_store.ray.handlers import CheckpointHandler, Fence
from checkpoint_store.ray.plugins import SETTINGS, Filter, Manager
from checkpoint_store.ray.settings import Settings

#: What a filter's process takes; the IDs are not its own.
_FILTER_MEMORY = 192 << 20


def checkpoint_config(
    id_column: str,
    checkpoint_path: str,
    storage_options: Options | None = None,
    *,
    override_filesystem: Any = None,
    delete_checkpoint_on_success: bool = True,
    write_num_threads: int = 3,
    checkpoint_path_partition_filter: Any = None,
    output: str | None = None,
    job_version: str | None = None,
    lease_url: str | None = None,
    assume_exclusive: bool = False,
    append: bool = False,
    allow_changed_read: bool = False,
    idempotent_sink: bool = False,
) -> CheckpointConfig:
    """A ``CheckpointConfig`` of Ray Data under which every row is in the output exactly once.

    Assign it to ``DataContext.get_current().checkpoint_config`` before the Dataset is made. An execution that writes is
    an attempt: it owns the checkpoint while it runs, and begins where those before it were stopped.

    Args:
        id_column: The column that names a row: in what is read, never null, unique, and still there when it is written.
        checkpoint_path: A URL, or a path as ``override_filesystem`` takes it, or one of this machine that all machines
            of the cluster share. One directory for one job and one output; the same path resumes.
        storage_options: Options by protocol, as fsspec has them, for the checkpoint and the output. What is not there
            comes from the environment, on each machine from its own. Those of ``DatasetContext`` where none are given.
        override_filesystem: A pyarrow or fsspec filesystem whose store and settings are to be used.
        delete_checkpoint_on_success: Whether the end of the job deletes the checkpoint and leaves a mark in the output.
            Kept, later runs skip all rows.
        write_num_threads: As Ray has it. At least 1.
        checkpoint_path_partition_filter: Not supported: all records count.
        output: The URL of the output, for a sink that has no path.
        job_version: What you call this version of the job's logic. A resume under another one is refused.
        lease_url: A directory for the files that decide who owns the checkpoint, where its store has no create-only
            write.
        assume_exclusive: Your word that nothing else works on this checkpoint, on such a store.
        append: Add to an output that holds data of jobs whose checkpoint is gone.
        allow_changed_read: Go on although what is read has changed.
        idempotent_sink: The sink commits on the driver or cannot delete, and writing a row twice does no harm.

    Raises:
        InvalidConfigError: An argument is wrong. Says which, and what is right.
    """
    if not isinstance(id_column, str) or not id_column:
        raise InvalidConfigError(f"the ID column is no name: {id_column!r}")
    if not isinstance(write_num_threads, int) or write_num_threads < 1:
        raise InvalidConfigError(f"write_num_threads is at least 1: {write_num_threads!r}")
    for name, text in (("output", output), ("job_version", job_version), ("lease_url", lease_url)):
        if text is not None and not isinstance(text, str):
            raise InvalidConfigError(f"{name} is a string: {text!r}")
    if not isinstance(delete_checkpoint_on_success, bool):
        raise InvalidConfigError(f"delete_checkpoint_on_success is True or False: {delete_checkpoint_on_success!r}")
    if checkpoint_path_partition_filter is not None:
        raise InvalidConfigError(
            "a checkpoint_path_partition_filter would leave out records, and their rows would be written twice\nhint: "
            "leave it out; records of a checkpoint are in one directory"
        )
    given = storage_options or DatasetContext.get_current().storage_options
    url, options = locate(str(checkpoint_path), override_filesystem, given)
    settings = Settings(
        id_column=id_column,
        checkpoint_url=url,
        storage_options=options,
        delete_on_success=delete_checkpoint_on_success,
        output=output,
        job_version=job_version,
        lease_url=lease_url,
        assume_exclusive=assume_exclusive,
        append=append,
        allow_changed_read=allow_changed_read,
        idempotent_sink=idempotent_sink,
    )
    scheme = url.partition("://")[0]
    control = StoreHandler((lease_url or url).partition("://")[0], options)
    fence = Fence(settings.key, control, control.normalize_path(unwrap(lease_url or url)))
    root = (
        control.normalize_path(unwrap(url))
        if lease_url is None
        else StoreHandler(scheme, options).normalize_path(unwrap(url))
    )
    handler = CheckpointHandler(scheme, options, root, fence)
    config = CheckpointConfig(
        id_column,
        url,
        delete_checkpoint_on_success=delete_checkpoint_on_success,
        override_filesystem=fs.PyFileSystem(handler),
        write_num_threads=write_num_threads,
        checkpoint_filter_cls=Filter,
        checkpoint_manager_cls=Manager,
    )
    config.checkpoint_actor_memory_bytes = _FILTER_MEMORY
    setattr(config, SETTINGS, settings)
    return config
