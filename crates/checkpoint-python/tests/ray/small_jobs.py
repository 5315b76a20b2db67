"""Jobs over a few rows at any place, and drivers of them in processes of their own on a cluster that is there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray
from pyarrow import fs

from checkpoint_store import CheckpointStore, build_checkpoint_filesystem

from small_driver import PATIENCE  # isort: skip
from states import WRITE  # isort: skip


class SmallJob:
    """A job at a place: 200 rows, of which 50 are done from the start by a task of plain Ray's."""

    def __init__(self, url: str, options: dict[str, Any], folder: Path) -> None:
        self.url, self.options, self.folder = url, options, folder
        self.root = url.partition("://")[2]
        self.filesystem = build_checkpoint_filesystem(url, options)
        for number in range(4):
            ids = range(number * 50, number * 50 + 50)
            self.put(f"input/{number}.parquet", ids)
            if number == 0:
                self.put(f"checkpoint/{WRITE}_000000.parquet", ids)
                self.put(f"output/{WRITE}_000000-0.parquet", ids)

    def put(self, name: str, ids: Any) -> None:
        path = f"{self.root}/{name}"
        self.filesystem.create_dir(path.rpartition("/")[0])
        pq.write_table(pa.table({"id": ids}), path, filesystem=self.filesystem)

    def written(self) -> Counter[int]:
        selector = fs.FileSelector(f"{self.root}/output", recursive=True)
        paths = [info.path for info in self.filesystem.get_file_info(selector) if info.path.endswith(".parquet")]
        return Counter(
            one for path in paths for one in pq.read_table(path, filesystem=self.filesystem)["id"].to_pylist()
        )

    def is_whole(self) -> None:
        """Each row is in the output once, and the checkpoint agrees."""
        assert self.written() == Counter(range(200))
        report = CheckpointStore(f"{self.url}/checkpoint", self.options, output=f"{self.url}/output").verify()
        assert report.ok and (report.committed_ids, report.output_rows) == (200, 200), report


class Driver:
    """A driver of a job, in a process of its own.

    Args:
        job: The job.
        name: The driver's name.
        other: The name of the other driver, for plain Ray: both load what is done before either goes on.
        plain: Whether it is plain Ray, with a filesystem of others.
        held: A file that the task of the last row waits for, once it has made another, `.reached`.
        fails_on: The row that a task fails on.
        variables: Variables of the driver and its workers.
        address: Another cluster than that of the tests.
    """

    def __init__(
        self,
        job: SmallJob,
        name: str,
        other: str = "",
        *,
        plain: bool = False,
        held: Path | None = None,
        fails_on: int | None = None,
        variables: dict[str, str] | None = None,
        address: str | None = None,
    ) -> None:
        self.begins, settings = job.folder / f"{name}.begins", job.folder / f"{name}.json"
        address = address or ray.get_runtime_context().gcs_address
        said = {"address": address, "url": job.url, "options": job.options, "plain": plain, "held": held and str(held)}
        said |= {"fails_on": fails_on, "variables": variables or {}}
        files = {"begins": str(self.begins), "mine": str(job.folder / name), "other": str(job.folder / other)}
        settings.write_text(json.dumps({**said, **files}))
        self.log = job.folder / f"{name}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, Path(__file__).parent / "small_driver.py", settings],
                env={**os.environ, **(variables or {})}, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip

    def answer(self) -> dict[str, Any]:
        """How it went."""
        out, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, self.log.read_text()[-6000:]
        # Plain Ray says things there too.
        return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
