"""Ray on this machine."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.data import DataContext

from jobs import Job


@pytest.fixture(scope="session", autouse=True)
def cluster() -> Iterator[None]:
    """One Ray for all tests of this folder that start none of their own."""
    # More than there are: plain Ray's pools of filters take one each, and let go of it late.
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    # Tasks of some dozens of rows, so that a failure finds some done and some not.
    context.target_min_block_size, context.target_max_block_size = 1, 512
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def own_context() -> Iterator[None]:
    """No test sees the configuration of another, nor waits for processors of one that failed.

    Plain Ray keeps the pool of filters of an execution that failed as long as its error is kept, by pytest for one.
    """
    gc.collect()
    yield
    DataContext.get_current().checkpoint_config = None
    gc.collect()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)
