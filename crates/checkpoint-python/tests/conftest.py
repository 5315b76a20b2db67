"""Stores that tests talk to, each started once, by whoever asks first."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from skipped_cases import SKIPPED


class TestStore:
    """A store in a process of its own, which ends with this one; see ``test-store`` of the Rust testkit."""

    __test__ = False

    def __init__(self, scheme: str) -> None:
        self._process = subprocess.Popen(
            [_program("test-store", "CKPT_TEST_STORE"), scheme],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = self._answer()
        self.scheme: str = scheme
        self.description: str = said["description"]
        self.endpoint: str = said["endpoint"]
        #: What ``http_proxy`` must be for it, or None.
        self.proxy: str | None = said["proxy"]
        self.options: dict[str, Any] = said["options"]

    @property
    def storage_options(self) -> dict[str, dict[str, Any]]:
        """The options by protocol."""
        return {self.scheme: self.options}

    def new_root(self) -> str:
        """A bucket or volume that no other test has, as a path without a scheme."""
        return self._ask("bucket")["root"]

    def requests(self) -> list[dict[str, Any]]:
        """What a mock received since the last time."""
        return self._ask("requests")

    def stop(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, question: str) -> Any:
        assert self._process.stdin is not None
        print(question, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            pytest.fail(f"the test store did not start or ended: {self._process.stderr.read()}", pytrace=False)
        return json.loads(line)


def _program(name: str, variable: str) -> str:
    given = os.environ.get(variable)
    if given is None:
        target = os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[3] / "target")
        given = str(Path(target) / "debug" / name)
    if not Path(given).is_file():
        pytest.fail(f"{given} is not built: run `just test-python`", pytrace=False)
    return given


@pytest.fixture(scope="session")
def ckpt_program() -> str:
    """The program ``ckpt``, of the same sources."""
    return _program("ckpt", "CKPT_PROGRAM")


def _stored(scheme: str) -> Iterator[TestStore]:
    store = TestStore(scheme)
    yield store
    store.stop()


@pytest.fixture(scope="session")
def s3_store() -> Iterator[TestStore]:
    """The S3 server: of ``MINIO_ENDPOINT``, a ``minio`` program, or the Ceph RADOS Gateway."""
    yield from _stored("s3")


@pytest.fixture(scope="session")
def cos_store() -> Iterator[TestStore]:
    """The strict mock of COS."""
    yield from _stored("cos")


@pytest.fixture(scope="session")
def oss_store() -> Iterator[TestStore]:
    """The strict mock of OSS."""
    yield from _stored("oss")


@pytest.fixture(scope="session")
def tclake_store() -> Iterator[TestStore]:
    """The strict mock of TCLake."""
    yield from _stored("tclake")


@pytest.fixture(scope="session")
def gs_store() -> Iterator[TestStore]:
    """The strict mock of Google Cloud Storage."""
    yield from _stored("gs")


@pytest.fixture(scope="session")
def az_store() -> Iterator[TestStore]:
    """Azurite."""
    yield from _stored("az")


@pytest.fixture(scope="session")
def s3_root(s3_store: TestStore) -> str:
    """A bucket for all tests that keep to a directory of their own in it."""
    return s3_store.new_root()


class Place(NamedTuple):
    """A directory of a test's own."""

    scheme: str
    options: dict[str, Any]
    #: The path without a scheme.
    root: str
    #: Whether directories are there without files.
    has_directories: bool

    @property
    def storage_options(self) -> dict[str, dict[str, Any]] | None:
        """The options by protocol."""
        return {self.scheme: self.options} if self.options else None


_numbers = itertools.count()


@pytest.fixture(params=["memory", "file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new directory in memory, on this machine, and on the S3 server."""
    name = f"place {next(_numbers)}"
    if request.param == "memory":
        return Place("memory", {}, f"tests/{name}", False)
    if request.param == "file":
        return Place("file", {}, str(tmp_path / name), True)
    store, root = request.getfixturevalue("s3_store"), request.getfixturevalue("s3_root")
    return Place("s3", store.options, f"{root}/{name}", False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what is listed, and only that. What is listed and not there any more is an error."""
    left = dict(SKIPPED)
    files = {item.path.name for item in items}
    for item in items:
        reason = left.pop((item.path.name, item.name), None)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
    chosen = any("::" in argument for argument in items[0].config.args) if items else True
    stale = [case for case in left if case[0] in files and not chosen]
    if stale:
        raise pytest.UsageError(f"skipped_cases.py lists what is not there: {stale}")
