"""Checkpoints as Ray 2.60 leaves them, made by hand, and what plain Ray makes of them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from ray.data import DataContext
from ray.data.checkpoint import CheckpointConfig

from jobs import Job

#: The name that plain Ray gives to the tasks of a write.
WRITE = "0123456789abcdef012345_0123456789abcdef0123456789abcdef"


class Twins:
    """One state twice: for plain Ray, and for ours."""

    def __init__(self, root: Path) -> None:
        self.plain, self.ours = Job(root / "plain"), Job(root / "ours")

    def __iter__(self) -> Any:
        return iter((self.plain, self.ours))

    def put(self, ids: Any, files: int = 4, **columns: Any) -> None:
        """Writes both inputs."""
        for job in self:
            job.put(ids, files, **columns)

    def task(self, name: str, ids: Any, record: str = "committed", *, data: bool = True) -> None:
        """A task in both; see `task`."""
        for job in self:
            task(job, name, ids, record, data=data)


def task(job: Job, name: str, ids: Any, record: str = "committed", *, data: bool = True) -> None:
    """A task of plain Ray's: its record is `committed`, `pending`, `both` or `gone`, and its data is there or not."""
    table = pa.table({"id": ids if isinstance(ids, pa.Array) else pa.array(ids)})
    for folder in (job.checkpoint, job.output):
        Path(folder).mkdir(exist_ok=True)
    if record in ("committed", "both"):
        pq.write_table(table, f"{job.checkpoint}/{name}.parquet")
    if record in ("pending", "both"):
        pq.write_table(table, f"{job.checkpoint}/{name}.pending.parquet")
    if data:
        pq.write_table(table, f"{job.output}/{name}-0.parquet")


def fixture(job: Job, name: str) -> list[int]:
    """Copies a state that Ray 2.60 itself left. Answers the IDs of the input."""
    source = Path(__file__).parents[4] / "fixtures/ray-2.60" / name
    for folder in ("input", "checkpoint", "output"):
        shutil.copytree(source / folder, getattr(job, folder), dirs_exist_ok=True)
    return pq.read_table(job.input)["id"].to_pylist()


def configure_plain(job: Job, id_column: str = "id", **options: Any) -> None:
    """Assigns Ray's own configuration."""
    DataContext.get_current().checkpoint_config = CheckpointConfig(
        id_column, job.checkpoint, delete_checkpoint_on_success=False, **options
    )


def run_plain(job: Job, step: Any = None) -> None:
    """The job by plain Ray."""
    configure_plain(job)
    job.run(step)


def run_ours(job: Job, step: Any = None, **options: Any) -> None:
    """The job with ours."""
    job.configure(**options)
    job.run(step)


def wrong(job: Job, ids: Iterable[Any]) -> tuple[int, int]:
    """How many IDs are lost, and how many are there too often."""
    written, wanted = Counter(job.written()), Counter(list(ids))
    return (wanted - written).total(), (written - wanted).total()
