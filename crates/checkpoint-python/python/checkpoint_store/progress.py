"""How far a run is: a bar in terminals and notebooks, lines elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from checkpoint_store.errors import InvalidConfigError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Progress"]

_NAMES = ("total_rows", "read_rows", "skipped_rows", "processed_rows", "written_rows", "failed_rows", "committed_tasks")


class Progress:
    """Shows counters while a block runs, in a thread of its own. What goes wrong in showing ends the showing alone."""

    def __init__(
        self, how: str | Callable[[Mapping[str, Any]], None], counters: Callable[[], tuple[str, list[int]]]
    ) -> None:
        self._counters = counters
        self._show, self._seconds = _shower(how)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint-store progress", daemon=True)

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._seconds):
                self._show(self._now(), False)
            self._show(self._now(), True)
        except Exception as failure:
            print(f"progress is shown no more: {type(failure).__name__}: {failure}", file=sys.stderr)

    def _now(self) -> dict[str, Any]:
        phase, numbers = self._counters()
        return {"phase": phase, **dict(zip(_NAMES, numbers, strict=True))}

    def __enter__(self) -> Self:
        if self._show is not _nothing:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()


_Show = Callable[[dict[str, Any], bool], None]


def _shower(how: str | Callable[[Mapping[str, Any]], None]) -> tuple[_Show, float]:
    if callable(how):
        return (lambda now, last: how(now)), 1.0
    if how == "none":
        return _nothing, 1.0
    if how == "tqdm":
        return _Bar(), 0.5
    if how == "plain":
        return _Lines(), 10.0
    if how != "auto":
        raise InvalidConfigError(f"there is no such progress: {how!r}\nhint: auto, tqdm, plain, none, or a function")
    if sys.stderr is not None and (sys.stderr.isatty() or _in_notebook()):
        try:
            return _Bar(), 0.5
        except ImportError:
            pass
    return _Lines(), 10.0


def _nothing(now: dict[str, Any], last: bool) -> None:
    pass


class _Lines:
    """A line now and then, and none for a run that is over before the first is due."""

    def __init__(self) -> None:
        self._shown = False

    def __call__(self, now: dict[str, Any], last: bool) -> None:
        if last and not self._shown:
            return
        self._shown = True
        done = now["skipped_rows"] + now["processed_rows"]
        total = f" of {now['total_rows']:,}" if now["total_rows"] else ""
        failed = f", {now['failed_rows']:,} failed" if now["failed_rows"] else ""
        print(f"{now['phase']}: {done:,}{total} rows done{failed}", file=sys.stderr, flush=True)


class _Bar:
    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as missing:
            raise ImportError("a progress bar needs tqdm: pip install tqdm") from missing
        self._bar = tqdm(unit=" rows", unit_scale=True, desc="discovering")
        self._began = False

    def __call__(self, now: dict[str, Any], last: bool) -> None:
        if now["total_rows"]:
            self._bar.total = now["total_rows"]
        if now["phase"] != "discovering" and not self._began and now["skipped_rows"]:
            self._bar.initial, self._began = now["skipped_rows"], True
        self._bar.set_description(now["phase"], refresh=False)
        self._bar.n = now["skipped_rows"] + now["processed_rows"]
        self._bar.refresh()
        if last:
            self._bar.close()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
