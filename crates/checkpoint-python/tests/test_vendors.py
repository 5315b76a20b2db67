"""COS, OSS and TCLake against mocks that refuse what the services refuse."""

import subprocess
import sys

import fsspec
import pytest
from pyarrow import fs

from checkpoint_store import build_checkpoint_filesystem, errors
from checkpoint_store.filesystem import CheckpointFileSystem

#: The UUID of a write, which is in the names of its records.
W = "0123456789abcdef0123456789abcdef"


@pytest.fixture(params=["cos", "oss", "tclake"])
def store(request, monkeypatch):
    store = request.getfixturevalue(f"{request.param}_store")
    monkeypatch.setenv("http_proxy", store.proxy)
    store.requests()
    return store


def multi_deletes(store):
    """The headers of each request that deleted many."""
    asked = [one for one in store.requests() if one["method"] == "POST" and one["query"].partition("=")[0] == "delete"]
    assert asked and all(one["status"] == 200 for one in asked)
    return [dict(one["headers"]) for one in asked]


def test_fsspec_deletes_many_with_their_digest_and_a_thousand_to_a_request(store):
    files = CheckpointFileSystem(scheme=store.scheme, **store.options)
    root = store.new_root()
    files.pipe({f"{root}/dir/{number}": b"" for number in range(1_050)})
    store.requests()
    files.rm(f"{root}/dir", recursive=True)
    deletes = multi_deletes(store)
    assert len(deletes) == 2 and all(one["content-md5"] for one in deletes)
    assert files.find(root) == []


def test_pyarrow_deletes_many_with_their_digest(store):
    root = store.new_root()
    filesystem = build_checkpoint_filesystem(f"{store.scheme}://{root}", store.storage_options)
    for number in range(3):
        with filesystem.open_output_stream(f"{root}/dir/{number}") as out:
            out.write(b"data")
    filesystem.delete_dir(f"{root}/dir")
    assert all(one["content-md5"] for one in multi_deletes(store))
    assert filesystem.get_file_info(f"{root}/dir").type == fs.FileType.NotFound


def test_a_move_leaves_no_source(store):
    root = store.new_root()
    filesystem = build_checkpoint_filesystem(f"{store.scheme}://{root}", store.storage_options)
    with filesystem.open_output_stream(f"{root}/{W}_task.pending.parquet") as out:
        out.write(b"ids")
    filesystem.move(f"{root}/{W}_task.pending.parquet", f"{root}/{W}_task.parquet")
    assert [one.path for one in filesystem.get_file_info(fs.FileSelector(root))] == [f"{root}/{W}_task.parquet"]


def test_large_files_go_in_parts(store):
    files = CheckpointFileSystem(scheme=store.scheme, **store.options)
    name = f"{store.new_root()}/large"
    data = bytes(range(256)) * 100_000
    with files.open(name, "wb") as file:
        for start in range(0, len(data), 1_000_000):
            file.write(data[start : start + 1_000_000])
    assert files.cat(name) == data
    assert files.cat_file(name, 5_000_000, 20_000_000) == data[5_000_000:20_000_000]


@pytest.mark.parametrize("protocol", ["cos", "cosn"])
def test_fsspec_finds_cos_by_its_names(cos_store, monkeypatch, protocol):
    monkeypatch.setenv("http_proxy", cos_store.proxy)
    root = cos_store.new_root()
    files = fsspec.filesystem(protocol, **cos_store.options)
    files.pipe(f"{protocol}://{root}/file", b"data")
    with fsspec.open(f"{protocol}://{root}/file", "rb", **cos_store.options) as file:
        assert file.read() == b"data"
    assert files.ls(root, detail=False) == [f"{root}/file"]


def test_fsspec_finds_tclake_by_its_name(tclake_store, monkeypatch):
    monkeypatch.setenv("http_proxy", tclake_store.proxy)
    root = tclake_store.new_root()
    with fsspec.open(f"tclake://{root}/a/file.txt", "w", **tclake_store.options) as file:
        file.write("data")
    files, path = fsspec.core.url_to_fs(f"tclake://{root}/a", **tclake_store.options)
    assert path == f"{root}/a" and files.find(path) == [f"{root}/a/file.txt"]
    assert files.isdir(root)
    assert not files.exists(f"{root}/b")
    with pytest.raises(errors.NotFoundError, match="create"):
        files.pipe("volume/cat/db/no_such_volume/file", b"")


def test_the_entry_points_are_found_in_a_process_that_imports_nothing_of_it():
    code = "import fsspec; print(*(fsspec.get_filesystem_class(one).__module__ for one in ('cos', 'cosn', 'tclake')))"
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert set(said.split()) == {"checkpoint_store.filesystem"}


def test_what_a_vendor_refuses_is_told_in_its_words(cos_store, monkeypatch):
    monkeypatch.setenv("http_proxy", cos_store.proxy)
    wrong = {**cos_store.options, "secret_key": "not-the-key-and-never-shown"}
    with pytest.raises(PermissionError) as raised:
        CheckpointFileSystem(scheme="cos", **wrong).ls(cos_store.new_root())
    assert raised.value.service_code == "SignatureDoesNotMatch" and raised.value.request_id
    assert "not-the-key" not in f"{raised.value!r} {raised.value}"
