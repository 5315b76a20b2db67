"""Threads, forks, signals and pickles. Nothing here measures time; the limits are against a test that hangs."""

import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading

import fsspec
import pytest
from pyarrow import fs

from checkpoint_store import _native, build_checkpoint_filesystem
from checkpoint_store.aio import AsyncFilesystem
from checkpoint_store.arrow import StoreHandler
from checkpoint_store.filesystem import CheckpointFileSystem

HANG = 120


def native(place):
    return _native.Filesystem(place.scheme, json.dumps(place.storage_options) if place.options else None)


@pytest.fixture(autouse=True)
def _no_hang():
    signal.alarm(2 * HANG)
    yield
    signal.alarm(0)


# Ctrl-C

CALLS = {
    "read": "_native.Filesystem('s3', options).read('bucket/name')",
    "read_many": "_native.Filesystem('s3', options).read_many([('bucket/name', None, None)] * 100)",
    "write": "_native.Filesystem('s3', options).write('bucket/name', b'data')",
    "list": "_native.Filesystem('s3', options).list('bucket')",
    "fsspec": "CheckpointFileSystem(scheme='s3', **json.loads(options)['s3']).cat('bucket/name')",
    "fsspec_file": "CheckpointFileSystem(scheme='s3', **json.loads(options)['s3']).open('bucket/name', 'rb')",
    "pyarrow": "build_checkpoint_filesystem('s3://bucket', json.loads(options)).get_file_info('bucket/name')",
    "pyarrow_stream": "build_checkpoint_filesystem('s3://b', json.loads(options)).open_input_stream('b/name')",
}

INTERRUPTED = """
import json, sys
from checkpoint_store import _native, build_checkpoint_filesystem
from checkpoint_store.filesystem import CheckpointFileSystem
options = sys.stdin.readline()
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_call_that_nobody_answers(call):
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(HANG)
    patient = {"read_timeout": 86_400, "connect_timeout": 86_400}
    endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
    options = {"s3": {"key": "k", "secret": "s", "endpoint_url": endpoint, "config_kwargs": patient}}
    code = [sys.executable, "-c", INTERRUPTED.format(call=CALLS[call])]
    child = subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdin.write(json.dumps(options) + "\n")
    child.stdin.flush()
    connection, _ = server.accept()
    connection.settimeout(HANG)
    assert connection.recv(1 << 16)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=HANG)
    assert (out, child.returncode) == ("interrupted\n", 0), err


# The interpreter's lock


def test_others_run_while_a_call_waits():
    server = socket.create_server(("127.0.0.1", 0))
    arrived, counted = threading.Event(), threading.Event()

    def count():
        arrived.wait(HANG)
        for _ in range(100_000):
            pass
        counted.set()

    def answer():
        connection, _ = server.accept()
        while b"\r\n\r\n" not in connection.recv(1 << 16):
            pass
        arrived.set()
        # Only what others do while the call waits gives it its answer.
        if counted.wait(HANG):
            head = 'HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\nContent-Range: bytes 0-3/4\r\nETag: "e"\r\n'
            connection.sendall(head.encode() + b"Last-Modified: Mon, 30 Nov 2026 12:00:00 GMT\r\n\r\ndata")

    for work in (count, answer):
        threading.Thread(target=work, daemon=True).start()
    options = {"s3": {"key": "k", "secret": "s", "endpoint_url": f"http://127.0.0.1:{server.getsockname()[1]}"}}
    assert _native.Filesystem("s3", json.dumps(options)).read("bucket/name") == b"data"
    assert counted.is_set()


def test_threads_share_a_filesystem(place):
    store = native(place)
    failures = []

    def work(which):
        try:
            for number in range(20):
                name = f"{place.root}/{which}/{number}"
                store.write(name, name.encode())
                assert store.read(name) == name.encode()
            assert len(store.list(f"{place.root}/{which}")) == 20
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(store.list(place.root, True)) == 240


# Forks


def in_a_child(work):
    """What the work, done after a fork, answers."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(work()).encode())
        except BaseException as failure:
            os.write(write, json.dumps(repr(failure)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said)


def test_a_child_goes_on_with_a_filesystem_of_its_parent(place):
    store = native(place)
    store.write(f"{place.root}/parent", b"of the parent")

    def child():
        store.write(f"{place.root}/child", b"of the child")
        assert in_a_child(lambda: store.read(f"{place.root}/child").decode()) == "of the child"
        return [store.read(f"{place.root}/parent").decode(), len(store.list(place.root))]

    assert in_a_child(child) == ["of the parent", 2]
    assert store.read(f"{place.root}/parent") == b"of the parent"
    if place.scheme != "memory":
        assert store.read(f"{place.root}/child") == b"of the child"


def test_a_fork_while_other_threads_wait_for_a_server(s3_store, s3_root):
    store = _native.Filesystem("s3", json.dumps(s3_store.storage_options))
    store.write(f"{s3_root}/forked", b"data")
    done = threading.Event()

    def busy():
        while not done.is_set():
            store.read(f"{s3_root}/forked")
            store.list(s3_root, True)

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert in_a_child(lambda: store.read(f"{s3_root}/forked").decode()) == "data"
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_a_write_that_was_begun_before_a_fork_is_the_parents(place):
    files = CheckpointFileSystem(scheme=place.scheme, **place.options)
    file = files.open(f"{place.root}/file", "wb", block_size=1)
    file.write(b"begun")

    def child():
        try:
            file.write(b"by the child")
        except RuntimeError as error:
            said = str(error)
        file.close()
        file._writer = None
        return said

    assert "begun before the fork" in in_a_child(child)
    file.write(b" and ended")
    file.close()
    assert files.cat(f"{place.root}/file") == b"begun and ended"


def read_length(filesystem, path):
    return filesystem.get_file_info(path).size


def cat_length(filesystem, path):
    return len(filesystem.cat(path))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools_of_processes(s3_store, s3_root, method):
    arrow = build_checkpoint_filesystem(f"s3://{s3_root}", s3_store.storage_options)
    files = CheckpointFileSystem(scheme="s3", **s3_store.options)
    names = [f"{s3_root}/pool {method}/{number}" for number in range(8)]
    files.pipe({name: b"x" * number for number, name in enumerate(names)})
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.starmap(read_length, [(arrow, name) for name in names]) == list(range(8))
        assert pool.starmap(cat_length, [(files, name) for name in names]) == list(range(8))


# Pickles

SECRET = "secret-of-the-environment"


@pytest.fixture
def environment(monkeypatch):
    for name in ("COS_SECRET_ID", "COS_SECRET_KEY"):
        monkeypatch.setenv(name, SECRET)
    # As fsspec reads FSSPEC_COS_TOKEN and its files.
    monkeypatch.setitem(fsspec.config.conf, "cos", {"token": SECRET})


def objects(options):
    by_protocol = {"cos": options}
    return {
        "fsspec": fsspec.filesystem("cos", **options),
        "fsspec by scheme": CheckpointFileSystem(scheme="cos", **options),
        "pyarrow": build_checkpoint_filesystem("cos://bucket/x", by_protocol),
        "handler": StoreHandler("cos", by_protocol),
        "asyncio": AsyncFilesystem("cos", by_protocol),
        "native": _native.Filesystem("cos", json.dumps(by_protocol)),
    }


def test_a_pickle_holds_what_was_given_and_nothing_of_the_environment(environment):
    given = {"region": "ap-guangzhou", "endpoint_url": "https://cos.ap-guangzhou.myqcloud.com"}
    for what, one in objects(given).items():
        pickled = pickle.dumps(one)
        assert SECRET.encode() not in pickled and b"ap-guangzhou" in pickled, what
        assert SECRET not in repr(one), what
        again = pickle.loads(pickled)
        assert pickle.dumps(again) == pickled, what
        if what != "native" and what != "asyncio":
            assert again == one, what


def test_options_that_were_given_are_in_the_pickle_and_are_not_shown(environment):
    given = {"secret_id": "given-id", "secret_key": "given-key", "region": "ap-guangzhou"}
    for what, one in objects(given).items():
        assert b"given-key" in pickle.dumps(one), what
        assert "given-key" not in repr(one) and "given-key" not in str(one), what


def test_what_differs_in_what_was_given_is_not_one_instance(environment):
    given = fsspec.filesystem("cos", token=SECRET, secret_id="i", secret_key="k")
    of_environment = fsspec.filesystem("cos", secret_id="i", secret_key="k")
    assert given is not of_environment
    assert SECRET.encode() in pickle.dumps(given) and SECRET.encode() not in pickle.dumps(of_environment)
    assert fsspec.filesystem("cos", secret_id="i", secret_key="k") is of_environment


def test_unpickled_filesystems_work(place):
    arrow = fs.PyFileSystem(StoreHandler(place.scheme, place.storage_options))
    files = CheckpointFileSystem(scheme=place.scheme, **place.options)
    files.pipe(f"{place.root}/file", b"data")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps((arrow, files, native(place)), protocol))
        assert again[0].open_input_file(f"{place.root}/file").read() == b"data"
        assert again[1].cat(f"{place.root}/file") == again[2].read(f"{place.root}/file") == b"data"
    with files.open(f"{place.root}/file", "rb") as file:
        file.seek(1)
        assert pickle.loads(pickle.dumps(file)).read() == b"ata"
