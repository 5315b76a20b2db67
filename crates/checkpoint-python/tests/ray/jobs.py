"""Jobs over small inputs, for the tests of Ray."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.data import DataContext


class Job:
    """An input, an output and a checkpoint in a directory of their own."""

    def __init__(self, root: Path) -> None:
        self.input, self.output, self.checkpoint = str(root / "input"), str(root / "output"), str(root / "checkpoint")
        Path(self.input).mkdir(parents=True)

    def put(self, ids: Any, files: int = 4, **columns: Any) -> None:
        """Writes the input: the IDs and other columns, spread over files."""
        ids = ids if isinstance(ids, pa.Array) else pa.array(ids)
        table = pa.table({"id": ids, **columns})
        step = -(-len(table) // files)
        for number in range(files):
            pq.write_table(table.slice(number * step, step), f"{self.input}/part-{number}.parquet")

    def configure(self, **options: Any) -> None:
        """Assigns a configuration of ours."""
        from checkpoint_store.ray import checkpoint_config

        config = checkpoint_config("id", self.checkpoint, **options)
        DataContext.get_current().checkpoint_config = config

    def read(self) -> Any:
        """The input, a block for each file."""
        return ray.data.read_parquet(self.input, override_num_blocks=4)

    def run(self, step: Callable[[Any], Any] | None = None) -> None:
        """Reads, maps and writes."""
        data = self.read()
        if step is not None:
            data = data.map_batches(step, batch_size=10, batch_format="pyarrow")
        data.write_parquet(self.output)

    def written(self) -> list[Any]:
        """The IDs in the output, each as often as it is there."""
        paths = [path for path in sorted(Path(self.output).rglob("*.parquet")) if not path.name.startswith("_")]
        return [value for path in paths for value in pq.read_table(path, partitioning=None)["id"].to_pylist()]

    def holds_once(self, ids: Any) -> None:
        """Each of these IDs is in the output once, and no other."""
        assert Counter(self.written()) == Counter(list(ids))

    def files(self) -> list[str]:
        """What is in the checkpoint."""
        root = Path(self.checkpoint)
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    def records(self) -> list[str]:
        """The records directly in the checkpoint."""
        return [name for name in self.files() if "/" not in name and name.endswith(".parquet")]


def fails_on(value: Any) -> Callable[[pa.Table], pa.Table]:
    """A step that fails on one row."""

    def step(table: pa.Table) -> pa.Table:
        if value in table["id"].to_pylist():
            raise RuntimeError(f"told to fail on {value}")
        return table

    return step
