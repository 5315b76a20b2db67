"""The filesystem for asyncio."""

import asyncio
import pickle
import socket
import threading

import pytest

from checkpoint_store import errors
from checkpoint_store.aio import AsyncFilesystem


@pytest.fixture
def fs(place):
    return AsyncFilesystem(place.scheme, place.storage_options)


def test_a_round_trip(fs, place):
    async def work():
        name = f"{place.root}/dir/name"
        await fs.write(name, memoryview(b"some bytes"))
        assert await fs.read(name) == b"some bytes"
        assert await fs.read(name, 5, 8) == b"byt"
        assert (await fs.stat(name))[0] == 10
        assert (await fs.info(f"{place.root}/dir"))[0] == "directory"
        await fs.copy(name, f"{name} 2")
        # A store that cannot copy without replacing says so.
        with pytest.raises((errors.AlreadyExistsError, errors.UnsupportedError)):
            await fs.copy(name, f"{name} 2", if_absent=True)
        with pytest.raises(FileExistsError):
            await fs.write(name, b"", if_absent=True)
        listed = await fs.list(place.root, recursive=True)
        assert sorted((path, bool(known)) for path, known in listed) == [
            (f"{place.root}/dir", False),
            (name, True),
            (f"{name} 2", True),
        ]
        first, missing = await fs.read_many([(name, 0, 4), (f"{name} 3", None, None)])
        assert first == b"some" and isinstance(missing, errors.NotFoundError)
        await fs.delete(name, f"{name} 2")
        with pytest.raises(FileNotFoundError):
            await fs.read(name)
        with pytest.raises(FileNotFoundError):
            await fs.stat(name)

    asyncio.run(work())


def test_many_at_once_and_in_several_loops(fs, place):
    async def work(which):
        names = [f"{place.root}/{which}/{number}" for number in range(100)]
        await asyncio.gather(*(fs.write(name, name.encode()) for name in names))
        assert await asyncio.gather(*(fs.read(name) for name in names)) == [name.encode() for name in names]

    threads = [threading.Thread(target=lambda which=which: asyncio.run(work(which))) for which in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asyncio.run(fs.list(place.root, recursive=True))) == 303


def silent_server():
    """A server that takes connections and never answers; tells of those that are closed."""
    server = socket.create_server(("127.0.0.1", 0))
    arrived, closed = threading.Event(), threading.Event()

    def attend():
        connection, _ = server.accept()
        connection.recv(1 << 16)
        arrived.set()
        while connection.recv(1 << 16):
            pass
        closed.set()

    threading.Thread(target=attend, daemon=True).start()
    return server, arrived, closed


def test_cancelling_drops_the_work():
    server, arrived, closed = silent_server()
    options = {"s3": {"key": "k", "secret": "s", "endpoint_url": f"http://127.0.0.1:{server.getsockname()[1]}"}}
    fs = AsyncFilesystem("s3", options)

    async def work():
        reading = asyncio.ensure_future(fs.read("bucket/name"))
        # The loop turns while the call waits.
        await asyncio.to_thread(arrived.wait)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.to_thread(closed.wait)

    asyncio.run(work())
    assert closed.is_set()
    server.close()


def test_a_loop_that_ends_first_is_no_trouble():
    server, arrived, _ = silent_server()
    options = {"s3": {"key": "k", "secret": "s", "endpoint_url": f"http://127.0.0.1:{server.getsockname()[1]}"}}
    fs = AsyncFilesystem("s3", options)

    async def work():
        task = asyncio.ensure_future(fs.read("bucket/name"))
        await asyncio.to_thread(arrived.wait)
        return task

    task = asyncio.run(work())
    assert task.cancelled()
    server.close()


def test_it_wants_a_running_loop_and_pickles_as_what_it_was_given(monkeypatch):
    fs = AsyncFilesystem("memory")
    with pytest.raises(RuntimeError, match="no running event loop"):
        fs._store.read_async("a/b")
    monkeypatch.setenv("COS_SECRET_ID", "the-id")
    monkeypatch.setenv("COS_SECRET_KEY", "of-the-environment")
    pickled = pickle.dumps(AsyncFilesystem("cos", {"cos": {"region": "ap-guangzhou"}}))
    assert b"of-the-environment" not in pickled
    assert pickle.loads(pickled).storage_options == {"cos": {"region": "ap-guangzhou"}}
