"""Errors that may pass, in the words by which Ray Data knows that a call is worth another try.

Ray looks for these words in the text of an error, and knows only those of pyarrow's S3 filesystem.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from checkpoint_store.errors import CheckpointError, RateLimitedError

T = TypeVar("T")

_PASSING = "AWS Error NETWORK_CONNECTION"
_SLOW_DOWN = "AWS Error SLOW_DOWN"


def retried(store: T) -> T:
    """The same object; its calls raise errors that may pass with Ray's words in them."""
    return _Retried(store)  # type: ignore[return-value]


class _Retried:
    """Stands before a native filesystem, or a writer that it opened."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                answer = found(*args, **kwargs)
            except CheckpointError as error:
                _say(error)
                raise
            return _Retried(answer) if name == "open_writer" else answer

        self.__dict__[name] = call
        return call


def _say(error: CheckpointError) -> None:
    if error.is_retryable and error.args and "AWS Error" not in str(error.args[0]):
        words = _SLOW_DOWN if isinstance(error, RateLimitedError) else _PASSING
        error.args = (f"{error.args[0]} ({words})", *error.args[1:])
