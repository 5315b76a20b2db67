"""fsspec's own suites."""

import fsspec.tests.abstract as abstract
import pytest

from checkpoint_store.filesystem import CheckpointFileSystem


class MemoryFixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self):
        return CheckpointFileSystem(scheme="memory")

    @pytest.fixture
    def fs_path(self):
        return "abstract/base"

    @pytest.fixture
    def supports_empty_directories(self):
        return False


class TestMemoryCopy(abstract.AbstractCopyTests, MemoryFixtures):
    pass


class TestMemoryGet(abstract.AbstractGetTests, MemoryFixtures):
    pass


class TestMemoryPut(abstract.AbstractPutTests, MemoryFixtures):
    pass


class TestMemoryPipe(abstract.AbstractPipeTests, MemoryFixtures):
    pass


class TestMemoryOpen(abstract.AbstractOpenTests, MemoryFixtures):
    pass
