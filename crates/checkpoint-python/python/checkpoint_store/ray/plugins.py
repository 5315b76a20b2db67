"""What Ray plugs in: who loads the IDs, who filters by them, and who is told how an execution ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data.block import BlockAccessor
from ray.data.checkpoint import CheckpointFilter, CheckpointManager

from checkpoint_store.ray import runs
from checkpoint_store.ray.rows import Rows

if TYPE_CHECKING:
    from checkpoint_store.ray.settings import Settings


#: The attribute of a configuration that has the settings.
SETTINGS = "checkpoint_store_settings"


def settings_of(config: Any) -> Settings | None:
    """The settings of a configuration, where it is one of ours."""
    return getattr(config, SETTINGS, None)


class Manager(CheckpointManager):
    """Gives Ray the IDs of the attempt that was begun when the execution was planned. Made once for each source.

    Where the plan has the filters already, behind its sources and in the tasks that read, there is nothing for Ray to
    add: its own way is a pool of actors, each of which takes a processor.
    """

    def __init__(self, checkpoint_config: Any, data_context: Any) -> None:
        super().__init__(checkpoint_config, data_context)
        self.settings = settings_of(checkpoint_config)

    def load_checkpoint(self, data_file_dir: str | None = None, data_file_filesystem: Any = None) -> tuple[Any, int]:
        assert self.settings is not None
        run = runs.run_of(self.settings)
        # The processes of a machine share one buffer, so none reserves memory for it.
        return (None, 0) if run.is_filtered else (run.ids_ref(), 0)


class Filter(CheckpointFilter):
    """Leaves out the rows that are done, by the one buffer of IDs that the processes of a machine share."""

    def __init__(self, checkpoint_config: Any, checkpoint_ref: Any) -> None:
        super().__init__(checkpoint_config, checkpoint_ref)
        self._rows = Rows(checkpoint_ref, checkpoint_config.id_column)

    def filter_rows_for_block(self, block: Any) -> pa.Table:
        return self._rows(block if isinstance(block, pa.Table) else BlockAccessor.for_block(block).to_arrow())


class Callback(ExecutionCallback):
    """Tells the run when its execution starts and how it ends."""

    def _run(self, executor: Any) -> runs.Run | None:
        settings = settings_of(executor._data_context.checkpoint_config)
        if settings is None or not _writes_of(executor):
            return None
        return runs.run_of(settings)

    def before_execution_starts(self, executor: Any) -> None:
        run = self._run(executor)
        if run is not None:
            run.start(_writes_of(executor))

    def after_execution_succeeds(self, executor: Any) -> None:
        run = self._run(executor)
        if run is not None and run.is_of(_writes_of(executor)):
            run.succeed()

    def after_execution_fails(self, executor: Any, error: Exception) -> None:
        run = self._run(executor)
        if run is not None and run.is_of(_writes_of(executor)):
            run.end("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")


def _writes_of(executor: Any) -> list[str]:
    """The UUIDs of the writes of an execution, which are in the names of their tasks."""
    from ray.data._internal.planner.plan_write_op import WRITE_UUID_KWARG_NAME

    kwargs = [op.get_map_task_kwargs() for op in executor._topology if hasattr(op, "get_map_task_kwargs")]
    return [one[WRITE_UUID_KWARG_NAME] for one in kwargs if WRITE_UUID_KWARG_NAME in one]
