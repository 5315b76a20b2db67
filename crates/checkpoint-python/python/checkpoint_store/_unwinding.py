"""Whether a file is closed because an error leaves its ``with`` block.

Python tells only the ``__exit__`` of the object in the ``with`` statement, and files often stand behind others: a text
wrapper, fsspec's ``OpenFile``, a Parquet writer. These close what is behind them in either case, and half of a file
would be taken for the whole.
"""

from __future__ import annotations

import dis
import sys

_WITH_EXIT = dis.opmap.get("WITH_EXCEPT_START")


def handled() -> BaseException | None:
    """The error that is being handled now: to be asked when a file is opened."""
    return sys.exc_info()[1]


def is_unwinding(handled_at_open: BaseException | None) -> bool:
    """Whether a ``with`` statement is ending by an error that came after the file was opened.

    A file that is closed in an ``except`` block, on purpose, is not meant.
    """
    error = sys.exc_info()[1]
    if error is None or error is handled_at_open:
        return False
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "__exit__":
            return True
        # The `__exit__` of a class in C has no frame; the statement that called it has.
        if frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _WITH_EXIT:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
