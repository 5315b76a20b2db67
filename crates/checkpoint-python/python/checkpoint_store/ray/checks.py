"""What would come out wrong, refused before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.data._internal.logical import operators as ops
from ray.data._internal.savemode import SaveMode
from ray.data.datasource.datasink import Datasink
from ray.data.datasource.file_datasink import _FileDatasink

from checkpoint_store.arrow import StoreHandler
from checkpoint_store.errors import InvalidConfigError
from checkpoint_store.ray.filesystems import unwrap
from checkpoint_store.ray.sources import arrow_schema, id_kind, leaves_of, names_of

if TYPE_CHECKING:
    from checkpoint_store.ray.settings import Settings

_OFF = "do it in a job of its own, on what this one has written, or turn the checkpoint off with checkpointing_off()"

#: Steps after which a row is no longer what was read, and what to call them.
_REFUSED: tuple[tuple[str, str], ...] = (
    ("Aggregate", "an aggregation (groupby, unique, sum, ...)"),
    ("Join", "a join"),
    ("RandomShuffle", "a random shuffle"),
    ("Sort", "a sort"),
    ("Limit", "a limit"),
    ("Mix", "a mix of sources"),
    ("Zip", "a zip"),
    ("StreamingSplit", "a split"),
    ("Count", "a count"),
)

#: Steps after which each row is still that of its ID.
_ALLOWED = (
    "AbstractFrom", "Download", "Filter", "FlatMap", "InputData", "ListFiles", "MapBatches", "MapRows", "Project",
    "RandomizeBlocks", "Read", "ReadFiles", "Repartition", "StreamingRepartition", "Union", "Write",
)  # fmt: skip

#: A UUID, to see where the names of files have that of the write.
_PROBE = "5f0c1d2e3a4b4c5d8e9f0a1b2c3d4e5f"


def check_plan(plan: Any, settings: Settings) -> None:
    """Refuses a plan whose output would be wrong after a resume.

    Raises:
        InvalidConfigError: Says which step, why, and what to do instead.
    """
    for op in _all(plan.dag):
        _check_step(op)
    _check_ids(plan.dag, settings.id_column)
    _check_sink(plan.dag.datasink_or_legacy_datasource, settings)
    tolerated = plan.context.max_errored_blocks
    if tolerated and settings.delete_on_success:
        raise _refused(
            f"blocks that fail are left out (max_errored_blocks={tolerated}), and the end of the job would delete the "
            "checkpoint, so nobody would know which",
            "give delete_checkpoint_on_success=False, or set max_errored_blocks to 0",
        )


def check_mode(sink: Any, settings: Settings) -> None:
    """Refuses a resume that would begin with deleting what earlier attempts wrote, or that would write nothing.

    Raises:
        InvalidConfigError: Says which mode, and what to give instead.
    """
    mode = getattr(sink, "mode", SaveMode.APPEND)
    if mode == SaveMode.APPEND or not isinstance(sink, _FileDatasink):
        return
    handler = StoreHandler(settings.checkpoint_url.partition("://")[0], settings.storage_options)
    # An attempt that has committed nothing yet may be about to, and may be at work.
    if handler.store.list(handler.normalize_path(unwrap(settings.checkpoint_url)), True):
        raise _refused(
            f"a resume adds to what is there, and mode={SaveMode(mode).value!r} does not: "
            f"url={settings.checkpoint_url}",
            "give mode='append'; or begin again with a fresh checkpoint and output",
        )


def _refused(what: str, hint: str) -> InvalidConfigError:
    return InvalidConfigError(f"{what}\nhint: {hint}")


def _all(op: Any) -> list[Any]:
    return [op, *(below for one in op.input_dependencies for below in _all(one))]


def _check_step(op: Any) -> None:
    for name, what in _REFUSED:
        kind: Any = getattr(ops, name, ())
        if isinstance(op, kind):
            raise _refused(
                f"{what} between the read and the write: after a resume it would see only the rows that are left: "
                f"step={op.name}",
                _OFF,
            )
    if isinstance(op, ops.Repartition) and op.keys:
        raise _refused(
            "a repartition by key between the read and the write: after a resume the rows of a key would be in several "
            f"files: keys={op.keys}",
            _OFF,
        )
    if not isinstance(op, tuple(getattr(ops, name) for name in _ALLOWED if hasattr(ops, name))):
        raise _refused(f"it is not known whether a resume is right with this step: step={op.name}", _OFF)


def _check_ids(dag: Any, id_column: str) -> None:
    for leaf in leaves_of(dag):
        names = names_of(leaf)
        if names is not None and id_column not in names:
            raise _refused(
                f"the ID column is not in what is read: column={id_column!r} source={leaf.name} "
                f"columns={', '.join(names[:20])}",
                "the ID must come with the rows, since those that are done are left out right behind the read; without "
                "a key of your own, read with include_row_hash=True and use 'row_hash'",
            )
    kinds = {
        id_kind(schema.field(id_column).type) for schema in map(arrow_schema, leaves_of(dag)) if schema is not None
    }
    if len(kinds) > 1:
        raise _refused(
            f"the sources have IDs of different kinds, which cannot be compared: column={id_column!r} "
            f"kinds={', '.join(sorted(kinds))}",
            "cast them to one type before they are written for this job, or run a job for each source",
        )
    names = names_of(dag.input_dependencies[0])
    if names is not None and id_column not in names:
        raise _refused(
            f"the ID column is dropped or renamed before the write: column={id_column!r} "
            f"columns={', '.join(names[:20])}",
            "keep it, for example in select_columns: the records of what is done are made of it",
        )


def _check_sink(sink: Any, settings: Settings) -> None:
    if not isinstance(sink, _FileDatasink):
        _check_other_sink(sink, settings)
        return
    name, other = (sink.filename_provider.get_filename_for_task(_PROBE, task) for task in (7, 8))
    if _PROBE not in name:
        raise _refused(
            f"the file names do not contain the UUID of the write, so those of two runs would be the same: name={name}",
            "use write_uuid in get_filename_for_task of the FilenameProvider",
        )
    if name.partition(".")[0] == other.partition(".")[0]:
        raise _refused(
            f"the file names do not contain the number of the task, so those of two tasks are the same: name={name}",
            "use task_index in get_filename_for_task of the FilenameProvider",
        )
    if "{" in name:
        raise _refused(
            f"the file names have a place for the number of the file in them, so the record of a task has another name "
            f"than its data: name={name}",
            "leave {i} out of get_filename_for_task of the FilenameProvider: Ray adds the number at the end",
        )
    if sink.unresolved_path.startswith("local://"):
        raise _refused(
            "output on the driver's own disk (local://) is not shared by the workers",
            "give a path that all machines share",
        )


def _check_other_sink(sink: Any, settings: Settings) -> None:
    if settings.idempotent_sink:
        return
    commits = isinstance(sink, Datasink) and type(sink).on_write_complete is not Datasink.on_write_complete
    what = (
        "commits on the driver, after its rows were recorded as done" if commits else "cannot take back what it wrote"
    )
    lost = "lose" if commits else "double"
    raise _refused(
        f"a sink that {what}: a run that is killed would {lost} rows: sink={type(sink).__name__}",
        "write files, or give idempotent_sink=True where writing a row again does no harm",
    )
