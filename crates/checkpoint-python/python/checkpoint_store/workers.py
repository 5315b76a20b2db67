"""Who calls the function of a pipeline: threads of this process, or processes of their own."""

from __future__ import annotations

import inspect
import pickle
import queue
import signal
import threading
from collections.abc import Callable
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from checkpoint_store.batches import given, taken
from checkpoint_store.errors import InvalidConfigError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["Workers"]


class Workers:
    """Callers of one function, each of which has one batch at a time. Made when they are needed, and kept.

    The native side calls ``apply`` from as many threads as batches are to be worked on at once.
    """

    def __init__(self, fn: Callable[..., Any], batch_format: str, schema: Any, processes: bool) -> None:
        self.uses_key = _takes_key(fn)
        self._schema = schema
        self._told = schema is not None
        self._format = batch_format
        self._fn = fn
        self._pickled = _pickled((fn, batch_format)) if processes else None
        self._idle: queue.LifoQueue[_Caller | _Process] = queue.LifoQueue()
        self._all: list[_Process] = []
        self._lock = threading.Lock()

    def apply(self, batch: Any, key: str) -> list[Any]:
        """The answer of the function for a batch, as objects with the Arrow PyCapsule interface."""
        worker = self._next()
        try:
            answer = worker.call(batch, key, self._schema)
        finally:
            if worker.is_alive():
                self._idle.put(worker)
        self._learn(answer)
        return answer

    def expect(self, schema: Any) -> None:
        """Takes the types of data frames and dictionaries from what earlier attempts wrote."""
        if self._told:
            return
        try:
            import pyarrow
        except ImportError:
            return
        self._schema, self._told = pyarrow.schema(schema), True

    def close(self) -> None:
        """Ends the processes. Can be called again."""
        with self._lock:
            processes, self._all = self._all, []
        for process in processes:
            process.end()

    def _learn(self, answer: list[Any]) -> None:
        """The first answer settles the types: a later column of nulls, say, is of them too."""
        if self._told:
            return
        schemas = [schema for each in answer if hasattr(schema := getattr(each, "schema", None), "with_metadata")]
        with self._lock:
            if schemas and not self._told:
                self._schema, self._told = schemas[0], True

    def _next(self) -> _Caller | _Process:
        while True:
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                return self._new()
            if worker.is_alive():
                return worker

    def _new(self) -> _Caller | _Process:
        if self._pickled is None:
            return _Caller(self._fn, self._format)
        process = _Process(self._pickled, self.uses_key)
        with self._lock:
            self._all.append(process)
        return process


class _Caller:
    """One caller of the function in this process; a class becomes an object of its own."""

    def __init__(self, fn: Callable[..., Any], batch_format: str) -> None:
        self._takes_key = _takes_key(fn)
        self._fn = fn() if isinstance(fn, type) else fn
        self._format = batch_format

    def call(self, batch: Any, key: str, schema: Any) -> list[Any]:
        keyed = {"idempotency_key": key} if self._takes_key else {}
        return list(taken(self._fn(given(batch, self._format), **keyed), schema))

    def is_alive(self) -> bool:
        return True


class _Process:
    """A process that calls the function. Batches go to it and come back as Arrow IPC."""

    def __init__(self, pickled: bytes, uses_key: bool) -> None:
        spawn = get_context("spawn")
        self._at_work = threading.Lock()
        self._connection, there = spawn.Pipe()
        # Nobody waits for it at the end of this process: it ends when its pipe does.
        self._process = spawn.Process(target=_serve, args=(there, pickled), daemon=True, name="checkpoint-store worker")
        self._process.start()
        there.close()

    def call(self, batch: Any, key: str, schema: Any) -> list[Any]:
        import pyarrow

        table = pyarrow.Table.from_batches([pyarrow.record_batch(batch)])
        with self._at_work:
            try:
                self._connection.send_bytes(pickle.dumps((key, schema)))
                self._connection.send_bytes(_ipc(table))
                kind, count = pickle.loads(self._connection.recv_bytes())
                replies = [self._connection.recv_bytes() for _ in range(count)]
            except (EOFError, OSError) as gone:
                self._end()
                raise RuntimeError(f"the worker process died: {self._last_words()}") from gone
        if kind == "failed":
            raise pickle.loads(replies[0])
        return [pyarrow.ipc.open_stream(reply).read_all() for reply in replies]

    def is_alive(self) -> bool:
        return self._process.is_alive() and not self._connection.closed

    def end(self) -> None:
        """Ends it when it has nothing to do, and kills it otherwise."""
        if self._at_work.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._at_work.release()
        else:
            # Who waits for its answer closes the pipe: no other thread may, while one reads from it.
            self._process.kill()

    def _end(self) -> None:
        self._connection.close()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _last_words(self) -> str:
        code = self._process.exitcode
        if code == 1:
            return (
                "exit code 1; what it said is on standard error. The main module of a script that uses processes needs "
                "`if __name__ == '__main__':` around what it runs"
            )
        return f"exit code {code}"


def _serve(connection: Connection, pickled: bytes) -> None:
    """What a worker process does until its pipe ends."""
    import pyarrow

    # Ctrl-C goes to all processes of a terminal; the one that runs the job decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    caller: _Caller | None = None
    while True:
        try:
            key, schema = pickle.loads(connection.recv_bytes())
            batch = pyarrow.ipc.open_stream(connection.recv_bytes()).read_all().combine_chunks().to_batches()
        except EOFError:
            return
        try:
            if caller is None:
                caller = _Caller(*pickle.loads(pickled))
            answer = [_ipc(pyarrow.table(each)) for each in caller.call(batch[0], key, schema)]
            replies = [pickle.dumps(("done", len(answer))), *answer]
        except BaseException as failure:
            if not isinstance(failure, Exception):
                raise
            replies = [pickle.dumps(("failed", 1)), _failure(failure)]
        for reply in replies:
            connection.send_bytes(reply)


def _failure(failure: Exception) -> bytes:
    """An exception as it travels; its traceback, which does not, as a note."""
    import traceback

    failure.add_note("in a worker process:\n" + "".join(traceback.format_exception(failure)).rstrip())
    try:
        pickled = pickle.dumps(failure)
        pickle.loads(pickled)
    except Exception:
        stand_in = RuntimeError(f"{type(failure).__name__}: {failure}")
        stand_in.__notes__ = failure.__notes__
        return pickle.dumps(stand_in)
    return pickled


def _ipc(table: Any) -> Any:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _pickled(value: Any) -> bytes:
    try:
        pickled = pickle.dumps(value)
        pickle.loads(pickled)
        return pickled
    except Exception as refused:
        try:
            import cloudpickle
        except ImportError:
            raise InvalidConfigError(
                f"the function does not pickle, and cannot be called in another process: {refused}\nhint: define it at "
                "the top of a module, or install cloudpickle"
            ) from refused
        return bytes(cloudpickle.dumps(value))


def _takes_key(fn: Callable[..., Any]) -> bool:
    called = getattr(fn, "__call__", fn) if isinstance(fn, type) else fn  # noqa: B004
    try:
        return "idempotency_key" in inspect.signature(called).parameters
    except (TypeError, ValueError):
        return False
