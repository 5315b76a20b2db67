"""Stores that tests talk to, each started once, by whoever asks first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from skipped_cases import SKIPPED

from stores import TestStore, program


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
def ckpt_program() -> str:
    """The program ``ckpt``."""
    return program("ckpt", "CKPT_PROGRAM")


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
