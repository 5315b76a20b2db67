"""Small things around the configuration."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ray.data.context import DataContext

from checkpoint_store.errors import BadDataError, ConflictError, InvalidConfigError, NoCheckpointError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class DatasetContext:
    """The settings of this process in one place: ``DatasetContext.get_current()``.

    ``storage_options`` are those of everything that is given none. ``checkpoint_config`` is that of Ray's own context.
    """

    _current: DatasetContext | None = None

    def __init__(self) -> None:
        self.storage_options: dict[str, dict[str, Any]] | None = None

    @classmethod
    def get_current(cls) -> DatasetContext:
        """The one of this process."""
        if cls._current is None:
            cls._current = cls()
        return cls._current

    @property
    def checkpoint_config(self) -> Any:
        """What ``DataContext.get_current().checkpoint_config`` is."""
        return DataContext.get_current().checkpoint_config

    @checkpoint_config.setter
    def checkpoint_config(self, config: Any) -> None:
        DataContext.get_current().checkpoint_config = config


@contextlib.contextmanager
def checkpointing_off() -> Iterator[None]:
    """Without a checkpoint: for reading the output back, for ``show`` and ``count``. Datasets made inside have none."""
    context = DataContext.get_current()
    config = context.checkpoint_config
    context.checkpoint_config = None
    try:
        yield
    finally:
        context.checkpoint_config = config


def run_with_resume(fn: Callable[[], T], *, attempts: int = 3, backoff: float = 1.0, longest: float = 60.0) -> T:
    """Calls a function that makes and writes a Dataset, and again when it fails: each call resumes.

    Args:
        fn: Makes the Dataset and writes it. The configuration is assigned outside of it, once.
        attempts: How often it is called at most.
        backoff: Seconds before the second call; doubled each time, with jitter.
        longest: Seconds between two calls at most.

    Raises:
        Exception: What the last call raised. What no further call can help (a wrong setting, another owner, bad IDs) is
            raised at once.
    """
    if attempts < 1:
        raise InvalidConfigError(f"a job is tried at least once: attempts={attempts}")
    for number in range(1, attempts + 1):
        try:
            return fn()
        except (InvalidConfigError, ConflictError, NoCheckpointError, BadDataError):
            raise
        except Exception as error:
            if number == attempts:
                raise
            wait = min(longest, backoff * 2 ** (number - 1)) * random.uniform(0.5, 1.0)
            logger.warning("attempt %d of %d failed, the next begins in %.1f s: %s", number, attempts, wait, error)
            time.sleep(wait)
    raise AssertionError("unreachable")
