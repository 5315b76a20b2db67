"""A cluster of several nodes, for all examples of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from processes import Nodes


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.stop()
