"""The records of a checkpoint, read by tasks on the machines of a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import HERE, PATIENCE, Nodes


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """None in this process."""
    yield


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.stop()


def test_records_are_read_by_tasks_one_of_which_is_killed(nodes: Nodes, tmp_path: Path) -> None:
    program = [sys.executable, HERE / "parts_driver.py", nodes.address, tmp_path / "job"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    # The end of a job reads them once more, by the driver alone.
    assert 1 < len(report["answers"]) <= report["records"] and all(report["answers"])
    assert (tmp_path / "job/killed").exists()
    assert len(list((tmp_path / "job").glob("node-*"))) > 1
