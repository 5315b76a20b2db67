"""Clusters of several nodes on this machine, and jobs on them in processes of their own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyarrow.dataset import dataset
from ray.cluster_utils import Cluster

from checkpoint_store import CheckpointStore, build_checkpoint_filesystem

HERE = Path(__file__).parent
#: How long a test waits for what must come.
PATIENCE = 240.0
#: A node of these tests.
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
#: When a node that does not answer is taken for lost: sooner than by default, later than on a machine that is busy.
HEALTH = {"health_check_period_ms": 1000, "health_check_timeout_ms": 4000, "health_check_failure_threshold": 3}


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    """Answers what the condition answers, once it is true."""
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.01)
    return found


def patiently(start: Callable[[], Any]) -> Any:
    """Starts a node. Ray gives it half a minute, which is short on a machine that is busy."""
    for _ in range(2):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    return start()


class Nodes:
    """A head and two more nodes, each with one processor. The head's processor is the first that a driver uses."""

    def __init__(self) -> None:
        head = {**NODE, "_system_config": HEALTH}
        self.cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        self.fill()

    @property
    def address(self) -> str:
        return self.cluster.address

    def fill(self) -> None:
        """Starts nodes in the place of those that were lost."""
        while len(self.cluster.worker_nodes) < 2:
            patiently(lambda: self.cluster.add_node(**NODE))

    def others(self) -> dict[str, Any]:
        """The nodes besides the head, by their IDs."""
        return {node.node_id: node for node in self.cluster.worker_nodes}

    def forget(self, node: Any) -> None:
        """Ends what is left of a node."""
        self.cluster.remove_node(node, allow_graceful=False)

    def stop(self) -> None:
        self.cluster.shutdown()


def raylet_of(node: Any) -> int:
    """The process that leads a node."""
    (info,) = node.all_processes["raylet"]
    return info.process.pid


class Event(NamedTuple):
    what: str
    pid: int
    node: str


class Driver:
    """A process that leads a job, in a group of its own."""

    def __init__(self, folder: Path, command: list[Any], environment: dict[str, str] | None = None) -> None:
        self.log_path = folder / "log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **(environment or {})},
            )  # fmt: skip

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")[-6000:]

    def kill(self) -> None:
        """The driver, and what it has started; not the nodes, which are not its own."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait(self) -> int:
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.kill(self.process.pid, signal.SIGABRT)
            pytest.fail(f"the driver hangs: {self.log()}")

    def done(self) -> None:
        assert self.wait() == 0, self.log()


class Child(Driver):
    """A driver that tells what it and its workers do."""

    def __init__(self, folder: Path, **job: Any) -> None:
        self.events_path = folder / "events"
        settings = folder / "job.json"
        settings.write_text(json.dumps({**job, "events": str(self.events_path)}))
        super().__init__(folder, [sys.executable, HERE / "driver.py", settings])

    def events(self) -> list[Event]:
        if not self.events_path.exists():
            return []
        lines = [line.rsplit(" ", 2) for line in self.events_path.read_text().splitlines()]
        return [Event(what, int(pid), node) for what, pid, node in lines]

    def names(self) -> list[str]:
        return [event.what for event in self.events()]

    def add(self, what: str) -> None:
        """Adds an event of the test's own."""
        with self.events_path.open("a") as events:
            events.write(f"{what} {os.getpid()} -\n")

    def wait_for(self, what: str) -> Event:
        """The event of this name; an error where the driver ends without it."""

        def look() -> Event | None:
            for event in self.events():
                if event.what == what:
                    return event
            assert self.process.poll() is None, f"ended without {what}: {self.log()}"
            return None

        return wait_until(look, f"{what} after {self.names()}: {self.log()}")


class Launch:
    """A job: its places, its rows, what it does to them, and its drivers.

    Args:
        nodes: The cluster.
        folder: For what the drivers say.
        root: The directory of its input, output and checkpoint, as a URL.
        options: Those of the storage.
        operation: What it does to its rows; see `OPERATIONS` of the driver. After `filter` the odd ones are left.
        form: The format of the output: `parquet`, `json` or `csv`.
    """

    def __init__(
        self, nodes: Nodes, folder: Path, root: str, options: dict[str, Any],
        operation: str = "map_batches", form: str = "parquet",
    ) -> None:  # fmt: skip
        self.nodes, self.folder, self.options, self.operation, self.form = nodes, folder, options, operation, form
        self.input, self.output, self.checkpoint = f"{root}/input", f"{root}/output", f"{root}/checkpoint"
        self.keep = True
        #: What may be left of a checkpoint that was deleted.
        self.litter: list[str] = []
        self._numbers = itertools.count()
        self._children: list[Child] = []
        files, rows = 12, 360
        #: The IDs that are to be in the output.
        self.wanted = {f"row-{one:05}" for one in range(rows) if operation != "filter" or one % 2 == 1}
        for number in range(files):
            table = pa.table({"id": [f"row-{one:05}" for one in range(number, rows, files)]})
            filesystem, path = self._open(self.input)
            filesystem.create_dir(path, recursive=True)
            pq.write_table(table, f"{path}/part-{number:02}.parquet", filesystem=filesystem)

    def _open(self, url: str) -> tuple[fs.FileSystem, str]:
        return build_checkpoint_filesystem(url, self.options), url.partition("://")[2]

    def start(self, at: str | None = None, action: str | None = None, turn: int = 3) -> Child:
        """A driver, and what befalls one of its workers at a point, when some have come by."""
        folder = self.folder / f"driver-{next(self._numbers)}"
        folder.mkdir(parents=True)
        child = Child(
            folder, address=self.nodes.address, input=self.input, output=self.output, checkpoint=self.checkpoint,
            options=self.options, operation=self.operation, form=self.form,
            blocks=12, keep=self.keep, at=at, action=action, turn=turn, spared=self.nodes.cluster.head_node.node_id,
        )  # fmt: skip
        self._children.append(child)
        return child

    def run(self) -> Child:
        child = self.start()
        child.done()
        return child

    def files(self, url: str) -> list[str]:
        filesystem, path = self._open(url)
        found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        return sorted(one.path[len(path) + 1 :] for one in found if one.type == fs.FileType.File)

    def written(self) -> list[str]:
        filesystem, path = self._open(self.output)
        names = [name for name in self.files(self.output) if name.endswith(f".{self.form}") and name[0] != "_"]
        data = dataset([f"{path}/{name}" for name in names], filesystem=filesystem, format=self.form)
        return data.to_table(columns=["id"])["id"].to_pylist()

    def holds_once(self) -> None:
        """Each row is in the output once, and the checkpoint agrees: by its records, or by the mark that it left."""
        found = Counter(self.written())
        lost, doubled = sorted(self.wanted - set(found)), sorted(one for one, count in found.items() if count > 1)
        strange = sorted(set(found) - self.wanted, key=str)
        assert (lost, doubled, strange) == ([], [], []), self.files(self.output)
        marks = [name for name in self.files(self.output) if name.startswith("_CHECKPOINT_COMPLETE-")]
        if self.keep:
            assert marks == []
            report = CheckpointStore(self.checkpoint, self.options, output=self.output).verify()
            assert report.ok, report
            rows = len(self.wanted)
            assert (report.committed_ids, report.output_rows, report.orphan_files) == (rows, rows, 0), report
        else:
            assert len(marks) == 1
            assert self.files(self.checkpoint) == self.litter

    def ends_right(self) -> None:
        """As it is, and after one more run, which computes nothing but what it drops again, and writes nothing."""
        self.holds_once()
        before = self.files(self.output)
        again = self.run()
        assert "batch" not in again.names() or (self.operation == "filter" and self.keep)
        assert self.files(self.output) == before
        self.holds_once()

    def stop(self) -> None:
        for child in self._children:
            if child.process.poll() is None:
                child.kill()
