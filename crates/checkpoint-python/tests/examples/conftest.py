"""A cluster of several nodes, for all examples that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from processes import Nodes


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.stop()
