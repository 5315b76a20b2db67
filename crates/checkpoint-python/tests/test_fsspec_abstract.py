"""fsspec's own suites, on memory, on this machine's directories and on the S3 server. See also skipped_cases.py."""

import fsspec
import pytest
from fsspec.tests import abstract

from checkpoint_store.filesystem import CheckpointFileSystem


class OnMemory(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self):
        return CheckpointFileSystem(scheme="memory")

    @pytest.fixture
    def fs_path(self):
        return "abstract/base"

    @pytest.fixture
    def supports_empty_directories(self):
        return False


class OnThisMachine(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self):
        return CheckpointFileSystem(scheme="file")

    @pytest.fixture
    def fs_path(self, tmp_path):
        return str(tmp_path / "base")


class OnS3(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, s3_store):
        return CheckpointFileSystem(scheme="s3", **s3_store.options)

    @pytest.fixture
    def fs_path(self, s3_root):
        return f"{s3_root}/abstract"

    @pytest.fixture
    def supports_empty_directories(self):
        return False


class TestMemoryCopy(abstract.AbstractCopyTests, OnMemory):
    pass


class TestMemoryGet(abstract.AbstractGetTests, OnMemory):
    pass


class TestMemoryPut(abstract.AbstractPutTests, OnMemory):
    pass


class TestMemoryPipe(abstract.AbstractPipeTests, OnMemory):
    pass


class TestMemoryOpen(abstract.AbstractOpenTests, OnMemory):
    pass


class TestLocalCopy(abstract.AbstractCopyTests, OnThisMachine):
    pass


class TestLocalGet(abstract.AbstractGetTests, OnThisMachine):
    pass


class TestLocalPut(abstract.AbstractPutTests, OnThisMachine):
    pass


class TestLocalPipe(abstract.AbstractPipeTests, OnThisMachine):
    pass


class TestLocalOpen(abstract.AbstractOpenTests, OnThisMachine):
    pass


class TestS3Copy(abstract.AbstractCopyTests, OnS3):
    pass


class TestS3Get(abstract.AbstractGetTests, OnS3):
    pass


class TestS3Put(abstract.AbstractPutTests, OnS3):
    pass


class TestS3Pipe(abstract.AbstractPipeTests, OnS3):
    pass


class TestS3Open(abstract.AbstractOpenTests, OnS3):
    pass


def test_no_suite_of_fsspec_is_left_out():
    suites = {name for name in dir(abstract) if name.startswith("Abstract") and name.endswith("Tests")}
    run = {name for name in suites if any(getattr(abstract, name) in kind.__mro__ for kind in _classes("TestS3"))}
    assert run == suites, fsspec.__version__


def _classes(start):
    return [value for name, value in globals().items() if name.startswith(start)]
