"""File objects: reads ahead, streamed writes, and what an error leaves, which is nothing."""

import io
import json
import subprocess
import sys

import fsspec
import pandas
import pytest

from checkpoint_store import errors
from checkpoint_store.filesystem import CheckpointFileSystem


@pytest.fixture
def fs(place):
    return CheckpointFileSystem(scheme=place.scheme, **place.options)


@pytest.fixture
def name(place):
    return f"{place.root}/file"


@pytest.mark.parametrize("cache", ["readahead", "none", "bytes", "mmap", "blockcache", "first", "all", "background"])
def test_reads_through_every_cache_of_fsspec(fs, name, cache):
    data = bytes(range(256)) * 1_000
    fs.pipe(name, data)
    with fs.open(name, "rb", block_size=1_000, cache_type=cache) as file:
        assert file.read(10) == data[:10]
        file.seek(100_000)
        assert file.read(5_000) == data[100_000:105_000]
        file.seek(-7, io.SEEK_END)
        assert file.read() == data[-7:] and file.read() == b""
        file.seek(0)
        assert file.read() == data


def test_lines_and_text(fs, name):
    with fs.open(name, "w", encoding="utf-8") as file:
        file.write("eins\nzwei\ndrei ☃\n")
    with fs.open(name, "r", encoding="utf-8") as file:
        assert list(file) == ["eins\n", "zwei\n", "drei ☃\n"]
    with fs.open(name, "rb") as file:
        assert file.readline() == b"eins\n"
        buffer = bytearray(4)
        assert file.readinto(buffer) == 4 and bytes(buffer) == b"zwei"


def test_a_file_is_there_once_it_is_closed_and_not_before(fs, name):
    file = fs.open(name, "wb", block_size=1 << 20)
    for _ in range(12):
        file.write(bytes(1 << 20))
    file.flush()
    assert not fs.exists(name)
    file.close()
    assert fs.info(name)["size"] == 12 << 20


def test_an_empty_file(fs, name):
    with fs.open(name, "wb"):
        pass
    assert fs.cat(name) == b"" and fs.info(name)["size"] == 0
    fs.touch(name + " touched")
    assert fs.cat(name + " touched") == b""


class GaveUp(Exception):
    pass


def open_directly(fs, name):
    return fs.open(name, "wb")


def open_as_text(fs, name):
    return fs.open(name, "w")


def open_by_url(fs, name):
    return fsspec.core.OpenFile(fs, name, "wb")


def open_by_url_as_text(fs, name):
    return fsspec.core.OpenFile(fs, name, "w")


def open_compressed(fs, name):
    return fsspec.core.OpenFile(fs, name, "wb", compression="gzip")


@pytest.mark.parametrize(
    "opened",
    [open_directly, open_as_text, open_by_url, open_by_url_as_text, open_compressed],
    ids=lambda one: one.__name__,
)
def test_what_an_error_cut_short_is_never_there(fs, name, opened):
    with pytest.raises(GaveUp), opened(fs, name) as file:
        file.write("half" if "text" in opened.__name__ else b"half")
        raise GaveUp
    assert not fs.exists(name)


def test_a_file_that_is_closed_while_an_error_is_handled_is_there(fs, name):
    file = fs.open(name, "wb")
    try:
        raise GaveUp
    except GaveUp:
        file.write(b"what went wrong")
        file.close()
    assert fs.cat(name) == b"what went wrong"
    try:
        raise GaveUp
    except GaveUp:
        with fs.open(name, "w") as file:
            file.write("again")
    assert fs.cat(name) == b"again"


def test_created_and_not_replaced(fs, name):
    fs.pipe(name, b"first")
    with pytest.raises(FileExistsError):
        fs.open(name, "xb")
    with pytest.raises(FileExistsError):
        fs.pipe_file(name, b"second", mode="create")
    assert fs.cat(name) == b"first"
    with fs.open(name + " 2", "xb") as one:
        one.write(b"loses")
        fs.pipe(name + " 2", b"wins")
        with pytest.raises(errors.AlreadyExistsError):
            one.close()
    assert fs.cat(name + " 2") == b"wins"


def test_a_transaction_publishes_all_or_nothing(fs, name):
    with fs.transaction:
        with fs.open(f"{name}/1", "wb") as file:
            file.write(b"one")
        fs.pipe_file(f"{name}/2", b"two")
        fs.pipe({f"{name}/3": b"three"})
        assert fs.find(name) == []
    assert fs.cat(name, recursive=True) == {f"{name}/1": b"one", f"{name}/2": b"two", f"{name}/3": b"three"}
    with pytest.raises(GaveUp), fs.transaction:
        with fs.open(f"{name}/4", "wb") as file:
            file.write(b"four")
        raise GaveUp
    assert f"{name}/4" not in fs.find(name)
    fs.pipe(f"{name}/5", b"five")
    assert fs.cat(f"{name}/5") == b"five"


def test_appending_is_refused(fs, name):
    with pytest.raises(NotImplementedError, match="cannot be appended to"):
        fs.open(name, "ab")


# Files of this machine have no tag of a version: what was opened is not told from what replaced it.
@pytest.mark.parametrize("place", ["memory", "s3"], indirect=True)
def test_a_reader_sees_one_version(fs, name):
    fs.pipe(name, b"old" * 1_000)
    with fs.open(name, "rb", block_size=10) as file:
        assert file.read(3) == b"old"
        fs.pipe(name, b"new" * 1_000)
        file.seek(2_000)
        with pytest.raises(errors.ConflictError, match="replaced while it was read"):
            file.read(3)


STREAM = """
import json, resource, sys
from checkpoint_store.filesystem import CheckpointFileSystem

fs = CheckpointFileSystem(scheme="s3", **json.load(sys.stdin))
piece = bytes(1 << 20)

def write(name, megabytes):
    with fs.open(f"{sys.argv[1]}/{name}", "wb") as file:
        for _ in range(megabytes):
            file.write(piece)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

print(write("short", 64), write("long", 400))
"""


def test_memory_of_a_streamed_write_does_not_grow_with_the_file(s3_store, s3_root):
    code = [sys.executable, "-c", STREAM, f"{s3_root}/streamed"]
    said = subprocess.check_output(code, input=json.dumps(s3_store.options), text=True)
    short, long = map(int, said.split())
    assert long - short < 64 << 10, "KiB"
    assert CheckpointFileSystem(scheme="s3", **s3_store.options).info(f"{s3_root}/streamed/long")["size"] == 400 << 20


def test_frames_go_through(fs, name):
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    with fs.open(f"{name}.parquet", "wb") as file:
        frame.to_parquet(file)
    with fs.open(f"{name}.parquet", "rb") as file:
        pandas.testing.assert_frame_equal(pandas.read_parquet(file), frame)
    with fs.open(f"{name}.csv.gz", "wt", compression="gzip") as file:
        frame.to_csv(file, index=False)
    with fs.open(f"{name}.csv.gz", "rt", compression="infer") as file:
        pandas.testing.assert_frame_equal(pandas.read_csv(file), frame)
