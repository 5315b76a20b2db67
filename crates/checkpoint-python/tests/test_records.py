"""Ray's records through a pyarrow filesystem of ours: what plain Ray does with it loses nothing."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from checkpoint_store import build_checkpoint_filesystem, errors, local
from checkpoint_store._retry_words import retried

#: The UUID of a write, which is in the names of its records.
W = "0123456789abcdef0123456789abcdef"


class Recorded:
    """A store, and the deletions that it was asked for."""

    def __init__(self, store):
        self.store, self.deleted = store, []

    def __getattr__(self, name):
        return getattr(self.store, name)

    def delete(self, paths):
        self.deleted.extend(sorted(path.rpartition("/")[2] for path in paths))
        return self.store.delete(paths)


@pytest.fixture(params=["memory", "file", "s3"])
def place(request, tmp_path):
    """A filesystem and a directory of it."""
    if request.param == "file":
        return build_checkpoint_filesystem(tmp_path), str(tmp_path)
    if request.param == "memory":
        return build_checkpoint_filesystem("memory://records"), f"records/{uuid.uuid4().hex}"
    store = request.getfixturevalue("s3_store")
    root = store.new_root()
    return build_checkpoint_filesystem(f"s3://{root}", store.storage_options), f"{root}/records"


def put(place, name, data=b"IDs"):
    filesystem, base = place
    with filesystem.open_output_stream(f"{base}/{name}") as file:
        file.write(data)
    return f"{base}/{name}"


def names(place, **options):
    filesystem, base = place
    infos = filesystem.get_file_info(fs.FileSelector(base, allow_not_found=True, **options))
    return sorted(info.base_name for info in infos if info.type == fs.FileType.File)


def test_a_pending_record_whose_task_is_done_is_never_shown(place):
    for name in [
        f"{W}_x_000001.parquet",
        f"{W}_x_000001.pending.parquet",
        f"{W}_x_000002.pending.parquet",
        f"{W}_x_000010.parquet",
    ]:
        put(place, name)
    assert names(place) == [f"{W}_x_000001.parquet", f"{W}_x_000002.pending.parquet", f"{W}_x_000010.parquet"]
    filesystem, base = place
    there = filesystem.get_file_info(f"{base}/{W}_x_000001.pending.parquet")
    assert there.type == fs.FileType.NotFound, "and it is swept"
    filesystem.delete_file(f"{base}/{W}_x_000001.pending.parquet")
    with pytest.raises(FileNotFoundError):
        filesystem.delete_file(f"{base}/{W}_x_000003.pending.parquet")


def test_a_record_is_moved_once_however_often_it_is_asked_for(place):
    filesystem, base = place
    pending = put(place, f"{W}_x.pending.parquet")
    filesystem.move(pending, f"{base}/{W}_x.parquet")
    filesystem.move(pending, f"{base}/{W}_x.parquet")
    assert names(place) == [f"{W}_x.parquet"]
    put(place, f"{W}_x.pending.parquet")
    filesystem.move(pending, f"{base}/{W}_x.parquet")
    assert names(place) == [f"{W}_x.parquet"]
    with pytest.raises(FileNotFoundError):
        filesystem.move(f"{base}/{W}_y.pending.parquet", f"{base}/{W}_y.parquet")


def test_a_task_that_gives_its_rows_in_another_order_is_the_same_task(place):
    filesystem, base = place
    for name, ids in [(f"{W}_x.parquet", [1, 2, 3]), (f"{W}_x.pending.parquet", [3, 1, 2])]:
        pq.write_table(pa.table({"id": ids}), f"{base}/{name}", filesystem=filesystem)
    filesystem.move(f"{base}/{W}_x.pending.parquet", f"{base}/{W}_x.parquet")
    assert pq.read_table(f"{base}/{W}_x.parquet", filesystem=filesystem)["id"].to_pylist() == [1, 2, 3]


def test_a_record_with_other_ids_is_never_replaced(place):
    filesystem, base = place
    put(place, f"{W}_x.parquet", b"these")
    pending = put(place, f"{W}_x.pending.parquet", b"those")
    with pytest.raises(errors.ConflictError, match="other IDs"):
        filesystem.move(pending, f"{base}/{W}_x.parquet")
    with filesystem.open_input_stream(f"{base}/{W}_x.parquet") as file:
        assert file.read() == b"these"


@pytest.mark.parametrize("place", ["memory", "s3"], indirect=True)
def test_pending_records_are_deleted_before_those_that_make_them_litter(place):
    filesystem, base = place
    for name in [f"{W}_a.parquet", f"{W}_b.pending.parquet", f"{W}_c.parquet"]:
        put(place, name)
    handler = filesystem.handler
    handler.store = recorded = Recorded(handler.store)
    filesystem.delete_dir(base)
    files = [name for name in recorded.deleted if name.endswith(".parquet")]
    assert files == [f"{W}_b.pending.parquet", f"{W}_a.parquet", f"{W}_c.parquet"]
    assert names(place) == []


@pytest.mark.parametrize("how", ["delete_dir", "delete_dir_contents"])
@pytest.mark.parametrize("place", ["file"], indirect=True)
def test_pending_records_of_this_machine_are_deleted_first(place, how, monkeypatch):
    filesystem, base = place
    delete_pending = local.LocalFileSystem._delete_pending

    def and_die(self, path):
        delete_pending(self, path)
        raise KeyboardInterrupt

    for name in [f"{W}_a.parquet", f"{W}_b.pending.parquet", f"{W}_b.parquet"]:
        put(place, name)
    with monkeypatch.context() as patch:
        patch.setattr(local.LocalFileSystem, "_delete_pending", and_die)
        with pytest.raises(KeyboardInterrupt):
            getattr(filesystem, how)(base)
    assert sorted(path.name for path in Path(base).iterdir()) == [f"{W}_a.parquet", f"{W}_b.parquet"]
    getattr(filesystem, how)(base)
    assert names(place) == [] and Path(base).exists() == (how == "delete_dir_contents")


def test_one_of_this_machine_is_what_it_was_when_it_was_pickled_and_where_paths_are_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filesystem = pickle.loads(pickle.dumps(build_checkpoint_filesystem("here")))
    assert isinstance(filesystem, local.LocalFileSystem)
    for name in [f"{W}_x.parquet", f"{W}_x.pending.parquet", f"{W}_y.pending.parquet"]:
        put((filesystem, "."), name)
    assert names((filesystem, ".")) == [f"{W}_x.parquet", f"{W}_y.pending.parquet"]
    filesystem.move(f"{W}_y.pending.parquet", f"{W}_y.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{W}_x.parquet", f"{W}_y.parquet"]


@pytest.mark.parametrize("place", ["memory", "file", "s3"], indirect=True)
def test_files_of_others_with_such_endings_are_theirs(place):
    """A listing deletes nothing, and shows all, where no write of Ray's is in the names."""
    filesystem, base = place
    for name in ["orders.parquet", "orders.pending.parquet"]:
        pq.write_table(pa.table({"order": [1, 2]}), f"{base}/{name}", filesystem=filesystem)
    for _ in range(2):
        assert names(place) == ["orders.parquet", "orders.pending.parquet"]
    filesystem.move(f"{base}/orders.pending.parquet", f"{base}/orders.parquet")
    assert names(place) == ["orders.parquet"]


class Failing:
    def __init__(self, error):
        self.error = error

    def read(self):
        raise self.error


@pytest.mark.parametrize(
    ("kind", "passes", "words"),
    [
        (errors.StorageError, True, "AWS Error NETWORK_CONNECTION"),
        (errors.RateLimitedError, True, "AWS Error SLOW_DOWN"),
        (errors.PermissionDeniedError, False, None),
    ],
)
def test_errors_that_may_pass_have_the_words_that_ray_looks_for(kind, passes, words):
    error = kind("it failed")
    error.is_retryable = passes
    with pytest.raises(kind) as raised:
        retried(Failing(error)).read()
    assert str(raised.value) == ("it failed" if words is None else f"it failed ({words})")
