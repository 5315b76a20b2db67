"""What would come out wrong, refused before any work."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from ray.data._internal.logical import operators as ops
from ray.data._internal.savemode import SaveMode
from ray.data.datasource.datasink import Datasink
from ray.data.datasource.file_datasink import _FileDatasink

from checkpoint_store.errors import ConflictError, InvalidConfigError
from checkpoint_store.ray.sources import leaves_of, names_of

if TYPE_CHECKING:
    from checkpoint_store.ray.filesystems import Options
    from checkpoint_store.ray.runs import Run
    from checkpoint_store.ray.settings import Settings

logger = logging.getLogger(__name__)

_OFF = "do it in a job of its own, on what this one has written, or turn the checkpoint off with checkpointing_off()"

#: Steps after which a row is no longer what was read, and what to call them.
_REFUSED: tuple[tuple[str, str], ...] = (
    ("Aggregate", "an aggregation (groupby, unique, sum, ...)"),
    ("Join", "a join"),
    ("RandomShuffle", "a random shuffle"),
    ("Sort", "a sort"),
    ("Limit", "a limit"),
    ("Mix", "a mix of sources"),
    ("StreamingSplit", "a split"),
    ("Count", "a count"),
)

#: Steps after which each row is still that of its ID.
_ALLOWED = (
    "Read", "ReadFiles", "ListFiles", "InputData", "MapBatches", "MapRows", "Filter", "Project", "FlatMap", "Download",
    "StreamingRepartition", "RandomizeBlocks", "Repartition", "Union", "Zip", "Write",
)  # fmt: skip


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
        raise InvalidConfigError(
            f"blocks that fail are left out (max_errored_blocks={tolerated}), and the end of the job would delete the checkpoint, "
            "so nobody would know which\nhint: give delete_checkpoint_on_success=False, or set max_errored_blocks to 0"
        )


def _all(op: Any) -> list[Any]:
    return [op, *(below for one in op.input_dependencies for below in _all(one))]


def _check_step(op: Any) -> None:
    for name, what in _REFUSED:
        kind = getattr(ops, name, None)
        if kind is not None and isinstance(op, kind):
            raise InvalidConfigError(f"{what} between the read and the write: after a resume it would see only the rows that are "
                                     f"left: step={op.name}\nhint: {_OFF}")
    if isinstance(op, ops.Repartition) and op.keys:
        raise InvalidConfigError(f"a repartition by key between the read and the write: after a resume a key's rows would be in "
                                 f"several files: keys={op.keys}\nhint: {_OFF}")
    kinds = tuple(getattr(ops, name) for name in _ALLOWED if hasattr(ops, name))
    if not isinstance(op, (*kinds, ops.AbstractFrom)):
        raise InvalidConfigError(f"it is not known whether a resume is right with this step: step={op.name}\nhint: {_OFF}")


def _check_ids(dag: Any, id_column: str) -> None:
    for leaf in leaves_of(dag):
        names = names_of(leaf)
        if names is not None and id_column not in names:
            known = ", ".join(names[:20])
            raise InvalidConfigError(
                f"the ID column is not in what is read: column={id_column!r} source={leaf.name} columns={known}\nhint: the ID must "
                "come with the rows, since the rows that are done are left out right behind the read; without a key of your own, "
                "read with include_row_hash=True and use 'row_hash'"
            )


    names = names_of(dag.input_dependencies[0])
    if names is not None and id_column not in names:
        raise InvalidConfigError(
            f"the ID column is dropped or renamed before the write: column={id_column!r} columns={', '.join(names[:20])}\nhint: keep "
            "it, for example in select_columns: the records of what is done are made of it"
        )


def _check_sink(sink: Any, settings: Settings) -> None:
    if isinstance(sink, _FileDatasink):
        probe = "5f0c1d2e3a4b4c5d8e9f0a1b2c3d4e5f"
        name = sink.filename_provider.get_filename_for_task(probe, 7)
        if probe not in name:
            raise InvalidConfigError(
                f"the file names do not contain the UUID of the write, so those of two runs would be the same: name={name}\nhint: use "
                "write_uuid in get_filename_for_task of the FilenameProvider"
            )
        if sink.unresolved_path.startswith("local://"):
            raise InvalidConfigError("output on the driver's own disk (local://) cannot be shared by workers\nhint: give a path that "
                                     "all machines share")
        return
    commits = isinstance(sink, Datasink) and type(sink).on_write_complete is not Datasink.on_write_complete
    if not settings.idempotent_sink:
        what = "commits on the driver, after its rows were recorded as done" if commits else "cannot take back what it wrote"
        raise InvalidConfigError(
            f"a sink that {what}: a run that is killed would {'lose' if commits else 'double'} rows: sink={type(sink).__name__}\nhint: "
            "write files, or give idempotent_sink=True where writing a row again does no harm"
        )


def check_resume(sink: Any, run: Run, settings: Settings) -> None:
    """Refuses to begin with deleting what earlier attempts wrote.

    Raises:
        InvalidConfigError: Says which mode, and what to give instead.
    """
    mode = getattr(sink, "mode", SaveMode.APPEND)
    if run.rows and mode != SaveMode.APPEND:
        run.end("failed")
        raise InvalidConfigError(
            f"a resume adds to what is there, and mode={SaveMode(mode).value!r} does not: rows that are done would be "
            f"{'deleted' if mode == SaveMode.OVERWRITE else 'all that there will ever be'}: rows={run.rows} "
            f"url={settings.checkpoint_url}\nhint: give mode='append'"
        )


def preflight(settings: Settings, output: str, options: Options | None) -> None:
    """Tries the checkpoint and the output from several machines at once.

    Raises:
        ConflictError: A machine does not see what the driver wrote, or the other way round: the path is not shared.
        CheckpointError: A machine cannot reach or use one of them.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from checkpoint_store.arrow import StoreHandler
    from checkpoint_store.ray.filesystems import unwrap

    nonce = uuid.uuid4().hex
    places = [(settings.checkpoint_url, settings.storage_options, "_meta/preflight")]
    if not output.startswith("memory://"):
        places.append((output, options, "_preflight"))
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")][:_MOST_NODES]
    for url, given, folder in places:
        handler = StoreHandler(url.partition("://")[0], given)
        root = handler.normalize_path(unwrap(url))
        here = f"{root}/{folder}/{nonce}"
        handler.store.write(f"{here}/driver", nonce.encode())
        try:
            tries = [
                _try.options(
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True), num_cpus=0, max_retries=1
                ).remote(handler.scheme, given, here, nonce, node)
                for node in nodes
            ]
            seen = {node for node in ray.get(tries) if node is not None}
            missing = [node for node in nodes if node not in seen or handler.store.stat(f"{here}/{node}") is None]
            if missing:
                raise ConflictError(
                    f"not every machine sees the same directory: url={url} machines={len(missing)} of {len(nodes)}\nhint: give a path "
                    "that all machines share, such as an object store or a mounted file system"
                )
        finally:
            handler.store.delete([f"{here}/{name}" for name in ("driver", *nodes)])
            _, _, has_directories = handler.store.abilities(here)
            if has_directories:
                _remove_empty(handler, [here, f"{root}/{folder}", f"{root}/_meta", root])


def _remove_empty(handler: Any, folders: list[str]) -> None:
    """Leaves no directory behind that was made for the trial; what is not empty stays."""
    for folder in folders:
        if handler.store.list(folder) or handler.store.delete([folder]):
            return


#: Machines that are asked.
_MOST_NODES = 8


def _remote_try(scheme: str, options: Options | None, here: str, nonce: str, node: str) -> str | None:
    """Reads what the driver wrote, lists it, and writes something itself; answers who did."""
    from checkpoint_store.arrow import StoreHandler

    store = StoreHandler(scheme, options).store
    if store.stat(f"{here}/driver") is None or store.read(f"{here}/driver") != nonce.encode():
        return None
    if not any(path.endswith("/driver") for path, _ in store.list(here)):
        return None
    store.write(f"{here}/{node}", nonce.encode())
    return node


class _Try:
    """The remote function, made when it is first used: Ray may not be initialized on import."""

    def options(self, **options: Any) -> Any:
        import ray

        return ray.remote(_remote_try).options(**options)


_try = _Try()
