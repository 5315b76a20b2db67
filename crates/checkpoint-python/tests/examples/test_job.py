"""``job.py`` as it is submitted to a Ray that others run: killed half way, and submitted again as it is."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import Driver, wait_until
from programs import PROGRAMS, TRIES
from pyarrow import fs
from ray.job_submission import JobSubmissionClient

from checkpoint_store import CheckpointStore, build_checkpoint_filesystem
from stores import TestStore

RAY = Path(sys.executable).with_name("ray")
ROWS = 480


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class StartedRay:
    """A Ray of two nodes, by its own command. Its environment has the settings of the store."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        # A Ray of its own, with a token of its own: one that the user has is for other clusters.
        token = secrets.token_hex(32)
        self.access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
        self._headers = {"Authorization": f"Bearer {token}"}
        self.environment = {**environment, **self.access}
        # The names of its sockets are short, or it does not start.
        self.files = tempfile.mkdtemp(prefix="ray-")
        address = f"127.0.0.1:{free_port()}"
        self.dashboard = f"http://127.0.0.1:{(dashboard := free_port())}"
        self.nodes: list[Driver] = []
        try:
            self._start(
                "head", "--head", "--node-ip-address=127.0.0.1", f"--port={address.partition(':')[2]}",
                f"--dashboard-port={dashboard}", f"--ray-client-server-port={free_port()}", f"--temp-dir={self.files}",
            )  # fmt: skip
            wait_until(self.client, "the dashboard")
            self._start("worker", f"--address={address}", "--node-ip-address=127.0.0.1")
        except BaseException:
            self.stop()
            raise

    def _start(self, name: str, *arguments: str) -> None:
        folder = self.folder / name
        folder.mkdir(parents=True)
        command = [
            RAY, "start", "--block", "--num-cpus=1", f"--object-store-memory={100 << 20}", "--disable-usage-stats",
            f"--dashboard-agent-listen-port={free_port()}", *arguments,
        ]  # fmt: skip
        self.nodes.append(Driver(folder, command, self.environment))

    def client(self) -> JobSubmissionClient | None:
        assert self.nodes[0].process.poll() is None, self.nodes[0].log()
        with contextlib.suppress(ConnectionError):
            return JobSubmissionClient(self.dashboard, headers=self._headers)
        return None

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.files, ignore_errors=True)


@pytest.fixture
def started(tmp_path: Path, oss_store: TestStore) -> Iterator[StartedRay]:
    environment = {
        "OSS_ACCESS_KEY_ID": oss_store.options["key"],
        "OSS_ACCESS_KEY_SECRET": oss_store.options["secret"],
        "OSS_ENDPOINT": oss_store.options["endpoint"],
        "OSS_REGION": oss_store.options["region"],
        "http_proxy": oss_store.proxy or "",
        "no_proxy": "127.0.0.1",
    }
    ray = StartedRay(tmp_path / "nodes", environment)
    yield ray
    ray.stop()


class Submitted:
    """``job.py`` in a folder of its own, and where it works."""

    def __init__(self, ray: StartedRay, folder: Path, store: TestStore) -> None:
        self.ray, self.folder, self.store = ray, folder, store
        self.client = wait_until(ray.client, "the dashboard")
        (folder / "work").mkdir(parents=True)
        shutil.copy(PROGRAMS / "job.py", folder / "work")
        self.path = f"{store.new_root()}/jobs"
        self.root = f"oss://{self.path}"
        self.filesystem = build_checkpoint_filesystem(self.root, store.storage_options)
        table = pa.table({"id": range(ROWS), "text": [f"  row \t {number}\n" * 900 for number in range(ROWS)]})
        for number in range(0, ROWS, 20):
            name = f"{self.path}/snapshots/input-001/part-{number:03}.parquet"
            pq.write_table(table.slice(number, 20), name, filesystem=self.filesystem)

    def submit(self, name: str) -> Driver:
        variables = json.dumps({"env_vars": {"JOB_ROOT": self.root}})
        command = [
            RAY, "job", "submit", f"--address={self.ray.dashboard}", f"--submission-id={name}",
            f"--runtime-env-json={variables}", "--working-dir", self.folder / "work", "--", sys.executable, "job.py",
        ]  # fmt: skip
        (self.folder / name).mkdir()
        return Driver(self.folder / name, command, self.ray.access)

    def driver_of(self, name: str) -> int | None:
        """The process of a job that runs, once it is known."""
        with contextlib.suppress(RuntimeError):
            info: Any = self.client.get_job_info(name).driver_info
            return int(info.pid) if info is not None else None
        return None

    def files(self, place: str) -> list[str]:
        found = self.filesystem.get_file_info(fs.FileSelector(f"{self.path}/run-001/{place}", allow_not_found=True))
        return [one.path for one in found if one.path.endswith(".parquet") and ".pending." not in one.path]

    def written(self) -> list[tuple[int, str]]:
        tables = [pq.read_table(path, filesystem=self.filesystem) for path in self.files("output")]
        return [(row["id"], row["text"]) for table in tables for row in table.to_pylist()]

    def fails_half_way(self, name: str) -> bool:
        """Answers false where it was done before it could be killed."""
        command = self.submit(name)
        ended = lambda: command.process.poll() is not None  # noqa: E731
        driver = wait_until(lambda: self.driver_of(name) or ended(), f"the driver: {command.log()}")
        wait_until(lambda: self.files("checkpoint") or ended(), f"a record: {command.log()}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(driver, signal.SIGKILL)
        if command.wait() == 0:
            return False
        assert self.client.get_job_status(name) == "FAILED"
        return 0 < len(self.written()) < ROWS


def test_a_job_that_failed_is_submitted_again(
    started: StartedRay, tmp_path: Path, oss_store: TestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", oss_store.proxy or "")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for number in range(TRIES):
        job = Submitted(started, tmp_path / f"job-{number}", oss_store)
        if job.fails_half_way(f"first-{number}"):
            break
    else:
        pytest.fail("it was always done before it could be killed")
    job.submit("second").done()
    assert sorted(job.written()) == [(number, f"row {number} " * 899 + f"row {number}") for number in range(ROWS)]
    checkpoint, output = f"{job.root}/run-001/checkpoint", f"{job.root}/run-001/output"
    report = CheckpointStore(checkpoint, oss_store.storage_options, output=output).verify()
    assert report.ok and (report.committed_ids, report.output_rows) == (ROWS, ROWS), report
