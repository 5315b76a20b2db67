"""The rule by which Ray's optimizer lets a plan with a checkpoint pass, before anything of it is planned or run."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs
from ray.data import Dataset
from ray.data._internal.logical.interfaces import LogicalPlan, Rule
from ray.data._internal.logical.operators import MapBatches, Write
from ray.data._internal.logical.optimizers import get_logical_ruleset
from ray.data._internal.util import RetryingPyFileSystem
from ray.data.context import DataContext
from ray.data.datasource.file_datasink import _FileDatasink

from checkpoint_store.arrow import StoreHandler
from checkpoint_store.ray import checks, runs
from checkpoint_store.ray.filesystems import locate, unwrap
from checkpoint_store.ray.handlers import Fence, OutputHandler
from checkpoint_store.ray.plugins import Callback, settings_of
from checkpoint_store.ray.preflight import try_place
from checkpoint_store.ray.sources import SOURCES, filter_of, inputs_of, is_row_hash, leaves_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from checkpoint_store.ray.filesystems import Options
    from checkpoint_store.ray.rows import Rows
    from checkpoint_store.ray.settings import Settings

logger = logging.getLogger(__name__)


def install() -> None:
    """Adds the rules to Ray's optimizer of this process. Once is enough."""
    ruleset = get_logical_ruleset()
    for rule in (BeginRule, FilterRule):
        if rule not in ruleset._rules:
            ruleset.add(rule)
    if not hasattr(Dataset.write_datasink, _GUARDED):
        setattr(Dataset, "write_datasink", _checks_mode(Dataset.write_datasink))  # noqa: B010


#: Marks Ray's function once it is ours that is called.
_GUARDED = "checkpoint_store_checks_mode"


def _checks_mode(write: Any) -> Any:
    """Ray's way into every write. It empties a directory that is to be replaced before a rule could see a plan."""

    @functools.wraps(write)
    def write_datasink(dataset: Any, datasink: Any, **options: Any) -> None:
        settings = settings_of(dataset.context.checkpoint_config)
        if settings is not None:
            checks.check_mode(datasink, settings)
        write(dataset, datasink, **options)

    setattr(write_datasink, _GUARDED, True)
    return write_datasink


class BeginRule(Rule):
    """Refuses what would be wrong, and begins the attempt."""

    @classmethod
    def dependents(cls) -> list[type[Rule]]:
        """All others: it looks at the plan as the user made it."""
        return [rule for rule in get_logical_ruleset()._rules if rule is not cls]

    def apply(self, plan: Any) -> Any:
        """Passes plans without a checkpoint of ours."""
        settings = settings_of(plan.context.checkpoint_config)
        if settings is None:
            _warn_if_late(plan)
            return plan
        if not isinstance(plan.dag, Write):
            _warn_once(
                "a checkpoint is configured and nothing is written: all rows are computed, and none is recorded. Turn "
                "it off with checkpoint_store.ray.checkpointing_off() for reads like this"
            )
            return plan
        callbacks = plan.context.custom_execution_callback_classes
        if Callback not in callbacks:
            plan.context.custom_execution_callback_classes = [*callbacks, Callback]
        run = runs.run_of(settings)
        datasink = plan.dag.datasink_or_legacy_datasource
        if not run.plans(datasink):
            checks.check_plan(plan, settings)
            _begin(run, plan, datasink, settings)
        run.dag = plan.dag.dag_str
        return plan


class FilterRule(Rule):
    """Puts a filter right behind each source, where Ray runs it in the very tasks that read."""

    @classmethod
    def dependencies(cls) -> list[type[Rule]]:
        """All others: what can be pushed into a source is there before a filter is in the way."""
        return [rule for rule in get_logical_ruleset()._rules if rule is not cls]

    def apply(self, plan: Any) -> Any:
        """Passes plans that this round of the optimizer has changed: the next may change them again."""
        settings = settings_of(plan.context.checkpoint_config)
        if settings is None or not isinstance(plan.dag, Write):
            return plan
        run = runs.run_of(settings)
        if run.dag != plan.dag.dag_str:
            return plan
        dag = _filtered(plan.dag, run.filters())
        run.is_filtered = True
        return plan if dag is plan.dag else LogicalPlan(dag, plan.context)


def _begin(run: runs.Run, plan: Any, datasink: Any, settings: Settings) -> None:
    leaves = leaves_of(plan.dag)
    output, options = _output_of(datasink, settings)
    row_hash = is_row_hash(leaves, settings.id_column)
    schema = schema_of(leaves)
    job = {
        "checkpoint": settings.checkpoint_url,
        "output": output,
        "id_column": settings.id_column,
        "row_hash": row_hash,
        "filter": filter_of(plan.dag) if row_hash else None,
        "version": settings.job_version,
        "inputs": inputs_of(leaves, settings.storage_options, row_hash),
        "lease_url": settings.lease_url,
        "assume_exclusive": settings.assume_exclusive,
        "allow_changed_read": settings.allow_changed_read,
        "append": settings.append,
    }
    try_place(settings.checkpoint_url, settings.storage_options, "_meta/preflight")
    if settings.output is not None or isinstance(datasink, _FileDatasink):
        try_place(output, options, "_preflight")
    id_type = None if schema is None else pa.array([], schema.field(settings.id_column).type)
    run.plan(datasink, job, options, id_type)
    try:
        if isinstance(datasink, _FileDatasink):
            _guard(datasink, output, options, settings)
    except BaseException:
        run.end("failed")
        raise


def _output_of(datasink: Any, settings: Settings) -> tuple[str, Options | None]:
    """Where the data goes, and the options that open it and the checkpoint."""
    if settings.output is not None:
        return settings.output, settings.storage_options
    if isinstance(datasink, _FileDatasink):
        return locate(datasink.unresolved_path, datasink.filesystem, settings.storage_options)
    # What it writes is no file: there is nothing to look at, and nothing to delete.
    return f"memory://{type(datasink).__name__.lower()}", settings.storage_options


def _guard(datasink: Any, output: str, options: Options | None, settings: Settings) -> None:
    """Has the sink write through a filesystem that carries the attempt."""
    scheme = output.partition("://")[0]
    store = StoreHandler(scheme, options)
    root = store.normalize_path(unwrap(output))
    control = settings.lease_url or settings.checkpoint_url
    place = StoreHandler(control.partition("://")[0], settings.storage_options)
    fence = Fence(settings.key, place, place.normalize_path(unwrap(control)))
    filesystem = fs.PyFileSystem(OutputHandler(scheme, options, root, fence))
    datasink.filesystem = RetryingPyFileSystem.wrap(
        filesystem, retryable_errors=datasink._data_context.retried_io_errors
    )
    datasink.path = root


def _filtered(op: Any, filters: Iterator[Rows] | None) -> Any:
    """The plan with a filter behind each source."""
    if filters is None:
        return op
    if isinstance(op, MapBatches) and isinstance(op.fn, functools.partial) and op.fn.func is _left:
        return op
    if isinstance(op, SOURCES):
        fn = functools.partial(_left, rows=next(filters))
        return MapBatches(fn=fn, input_dependencies=[op], can_modify_num_rows=True, batch_format="pyarrow")
    inputs = [_filtered(one, filters) for one in op.input_dependencies]
    same = all(new is old for new, old in zip(inputs, op.input_dependencies, strict=True))
    return op if same else op._with_new_input_dependencies(inputs)


def _left(table: Any, rows: Rows) -> Any:
    return rows(table)


_warned: set[str] = set()


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        logger.warning("%s", text)


def _warn_if_late(plan: Any) -> None:
    """The configuration is a Dataset's own from the moment it was made."""
    current = DataContext.get_current()
    is_other = plan.context is not current and settings_of(current.checkpoint_config) is not None
    if is_other and isinstance(plan.dag, Write):
        _warn_once(
            "the checkpoint was configured after this Dataset was made, and does nothing for it: assign "
            "checkpoint_config before the Dataset is read"
        )
