"""The programs of examples/python, each run as a user would, over rows that are counted in the end."""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from processes import Driver, wait_until
from pyarrow import fs

from checkpoint_store import build_checkpoint_filesystem
from checkpoint_store._records import RECORD, is_pending

#: Where the programs are.
PROGRAMS = Path(__file__).parents[4] / "examples/python"
#: A checkpoint is all done before a kill comes, on a bad day. Then the job is done again, elsewhere.
TRIES = 3


class Example:
    """A program, its places and its drivers."""

    def __init__(
        self,
        address: str,
        folder: Path,
        program: str,
        root: str,
        rows: int,
        *,
        id_column: str = "id",
        storage_options: dict[str, dict[str, Any]] | None = None,
        environment: dict[str, str] | None = None,
        arguments: tuple[Any, ...] = (),
    ) -> None:
        self.folder, self.program, self.arguments = folder, program, arguments
        self.rows, self.id_column = rows, id_column
        self.input, self.output, self.checkpoint = f"{root}/input", f"{root}/output", f"{root}/checkpoint"
        self.path = root.partition("://")[2] or root
        self.filesystem = build_checkpoint_filesystem(root, storage_options)
        # As `ray job submit` tells the workers of a job what their environment has.
        variables = environment or {}
        self.environment = {
            **variables,
            "RAY_ADDRESS": address,
            "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps({"runtime_env": {"env_vars": variables}}),
        }
        self._numbers = itertools.count()
        self.drivers: list[Driver] = []

    def put(self, tables: list[pa.Table]) -> None:
        """Writes the input, a file for each table."""
        self.filesystem.create_dir(f"{self.path}/input", recursive=True)
        for number, table in enumerate(tables):
            pq.write_table(table, f"{self.path}/input/part-{number:02}.parquet", filesystem=self.filesystem)

    def start(self, *more: Any) -> Driver:
        folder = self.folder / f"driver-{next(self._numbers)}"
        folder.mkdir(parents=True)
        places = ["--input", self.input, "--output", self.output, "--checkpoint", self.checkpoint]
        command = [sys.executable, PROGRAMS / self.program, *places, *self.arguments, *more]
        driver = Driver(folder, command, self.environment)
        self.drivers.append(driver)
        return driver

    def kill_half_way(self) -> bool:
        """Starts the program and kills it when it has done some more rows, and not all. Answers false where it was too
        fast for that."""
        before = self.records()
        driver = self.start()
        done = wait_until(
            lambda: driver.process.poll() is not None or self.records() > before, f"a record: {driver.log()}"
        )
        assert done and driver.process.returncode in (None, 0), driver.log()
        driver.kill()
        return self.records() > before and len(self.written()) < self.rows

    def records(self) -> int:
        """How many tasks are done, by the checkpoint."""
        names = [name for name in self.files("checkpoint") if "/" not in name]
        return sum(name.endswith(RECORD) and not is_pending(name) for name in names)

    def files(self, place: str) -> list[str]:
        root = f"{self.path}/{place}"
        found = self.filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
        return sorted(one.path[len(root) + 1 :] for one in found if one.type == fs.FileType.File)

    def written(self) -> pa.Table:
        """The output."""
        names = [name for name in self.files("output") if name.endswith(".parquet")]
        return pa.concat_tables(
            pq.read_table(f"{self.path}/output/{name}", filesystem=self.filesystem, partitioning=None) for name in names
        )

    def ends_right(self, ids: list[Any] | int) -> pa.Table:
        """Each ID is in the output once, or as many IDs, where nobody knows them before. The checkpoint is gone."""
        table = self.written()
        found = Counter(table[self.id_column].to_pylist())
        assert set(found.values()) == {1}
        if isinstance(ids, int):
            assert len(found) == ids
        else:
            assert set(found) == set(ids)
        assert self.files("checkpoint") == []
        assert sum(name.startswith("_CHECKPOINT_COMPLETE-") for name in self.files("output")) == 1
        return table

    def stop(self) -> None:
        for driver in self.drivers:
            if driver.process.poll() is None:
                driver.kill()
