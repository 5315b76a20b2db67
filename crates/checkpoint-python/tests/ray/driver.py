"""A job of Ray Data in a process of its own, for tests that kill it or its workers.

Its only argument is a file of JSON; see ``Launch`` in ``processes.py``. What it and its workers do, they write to a
file of events, a line for each: what, process, node.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from pyarrow import fs
from ray.data import DataContext, Dataset
from ray.data.expressions import col

from checkpoint_store import build_checkpoint_filesystem
from checkpoint_store.errors import ConflictError
from checkpoint_store.ray import checkpoint_config, rules
from checkpoint_store.ray.handlers import CheckpointHandler, OutputHandler


class Events:
    """What happened, in a file that all processes of a machine add to; and what is to happen at one of them, once."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.path, self.at, self.action = job["events"], job["at"], job["action"]
        self.turn, self.spared = job["turn"], job["spared"]

    @property
    def node(self) -> str:
        return ray.get_runtime_context().get_node_id() if ray.is_initialized() else "-"

    def add(self, what: str) -> None:
        line = f"{what} {os.getpid()} {self.node}\n".encode()
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, line)
        os.close(file)

    def reach(self, point: str) -> None:
        """Adds an event, and does what is asked for there: the one whose turn it is does, nobody after it, and nobody
        on the node that is spared."""
        self.add(point)
        if point != self.at or self.node == self.spared:
            return
        for turn in range(1, self.turn + 1):
            try:
                os.close(os.open(f"{self.path}.{turn}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            if turn == self.turn:
                self.act()
            return

    def act(self) -> None:
        self.add(f"acting-{self.action}")
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
            self.add("continued")
        elif self.action == "memory error":
            with scarce_memory():
                raise MemoryError("told to use more memory than there is")
        elif self.action == "out of memory":
            scarce_memory().__enter__()


class scarce_memory:
    """Fills this process's memory up to a limit, which stays on until the end of the block."""

    def __enter__(self) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        self.limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 20), self.limits[1]))
        # The worker keeps what it has taken, as one does that leaks.
        self.taken: list[bytearray] = []
        sys.modules["__main__"].__dict__.setdefault("taken", []).append(self.taken)
        for size in (1 << 20, 1 << 12, 1 << 9):
            try:
                while True:
                    self.taken.append(bytearray(size))
            except MemoryError:
                continue

    def __exit__(self, *_: object) -> None:
        self.taken.clear()
        resource.setrlimit(resource.RLIMIT_AS, self.limits)


class WatchedCheckpoint(CheckpointHandler):
    """Ours, with events around each write and move of a record."""

    events: Events

    def __reduce__(self) -> tuple[Any, ...]:
        kind, arguments = super().__reduce__()
        return functools.partial(_watched, kind, self.events), arguments

    def put_record(self, path: str, data: bytes) -> None:
        super().put_record(path, data)
        self.events.reach("pending")

    def move(self, src: str, dest: str) -> None:
        self.events.reach("move")
        check = self.fence.check

        def check_and_reach() -> None:
            check()
            self.events.reach("fenced")

        self.fence.check = check_and_reach
        try:
            super().move(src, dest)
        except OSError as error:
            self.events.add(f"failed-{type(error).__name__}")
            raise
        finally:
            self.fence.check = check
        self.events.reach("moved")


class WatchedOutput(OutputHandler):
    """Ours, with events around each file."""

    events: Events

    def __reduce__(self) -> tuple[Any, ...]:
        kind, arguments = super().__reduce__()
        return functools.partial(_watched, kind, self.events), arguments

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        stream = super().open_output_stream(path, metadata)
        self.events.reach("data")
        return stream


def _watched(kind: type, events: Events, *arguments: Any) -> Any:
    handler = kind(*arguments)
    handler.events = events
    check = handler.fence.check

    def told(**options: Any) -> None:
        try:
            check(**options)
        except ConflictError:
            events.add("refused")
            raise

    handler.fence.check = told
    return handler


def step(table: pa.Table, events: Events) -> pa.Table:
    """A slow one."""
    time.sleep(0.02)
    events.reach("batch")
    return table


def odd(row: dict[str, Any]) -> bool:
    return int(row["id"].rpartition("-")[2]) % 2 == 1


#: What comes after that step. All but one keep every row.
OPERATIONS: dict[str, Callable[[Dataset], Dataset]] = {
    "map": lambda data: data.map(lambda row: {**row, "n": 1}),
    "map_batches": lambda data: data.map_batches(lambda batch: {**batch, "n": batch["id"]}),
    "filter": lambda data: data.filter(odd),
    "flat_map": lambda data: data.flat_map(lambda row: [row]),
    "with_column": lambda data: data.with_column("n", col("id")),
}


def main(job: dict[str, Any]) -> None:
    events = Events(job)
    ray.init(address=job["address"], log_to_driver=False, logging_level=logging.ERROR)
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_min_block_size, context.target_max_block_size = 1, 1024
    options = job["options"]
    config = checkpoint_config("id", job["checkpoint"], options, delete_checkpoint_on_success=not job["keep"])
    ours = config.filesystem
    while hasattr(ours, "unwrap"):
        ours = ours.unwrap()
    _, arguments = ours.handler.__reduce__()
    config.filesystem = fs.PyFileSystem(_watched(WatchedCheckpoint, events, *arguments))
    rules.OutputHandler = functools.partial(_watched, WatchedOutput, events)
    context.checkpoint_config = config

    events.add("begin")
    # Ray takes a path with a scheme for one of pyarrow's own filesystems.
    source, output = (job[one].partition("://")[2] for one in ("input", "output"))
    filesystem = build_checkpoint_filesystem(job["input"], options)
    data = ray.data.read_parquet(source, filesystem=filesystem, override_num_blocks=job["blocks"])
    data = data.map_batches(functools.partial(step, events=events), batch_size=10, batch_format="pyarrow")
    data = OPERATIONS[job["operation"]](data)
    getattr(data, f"write_{job['form']}")(output, filesystem=filesystem)
    events.add("end")
    ray.shutdown()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
