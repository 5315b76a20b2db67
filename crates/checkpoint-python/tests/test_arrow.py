"""The pyarrow filesystem: what it promises beyond pyarrow's own tests."""

import gc
import pickle

import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from checkpoint_store import build_checkpoint_filesystem, errors
from checkpoint_store.arrow import StoreHandler, to_pyarrow
from checkpoint_store.filesystem import CheckpointFileSystem

DIRECTORY, FILE, MISSING = fs.FileType.Directory, fs.FileType.File, fs.FileType.NotFound


@pytest.fixture
def filesystem(place):
    return fs.PyFileSystem(StoreHandler(place.scheme, place.storage_options))


@pytest.fixture
def root(place):
    return place.root


def write(filesystem, path, data=b"data"):
    filesystem.create_dir(path.rpartition("/")[0])
    with filesystem.open_output_stream(path) as out:
        out.write(data)


def listed(filesystem, base, recursive=True):
    return {one.path: one.type for one in filesystem.get_file_info(fs.FileSelector(base, recursive=recursive))}


def test_directories_with_files_in_them(filesystem, root):
    write(filesystem, f"{root}/a/b/file")
    write(filesystem, f"{root}/a/file")
    write(filesystem, f"{root}/c/file")
    asked = [f"{root}/a", f"{root}/a/", f"{root}/a/file", f"{root}/x"]
    assert [one.type for one in filesystem.get_file_info(asked)] == [DIRECTORY, DIRECTORY, FILE, MISSING]
    below = {f"{root}/a/b": DIRECTORY, f"{root}/a/b/file": FILE, f"{root}/a/file": FILE}
    assert listed(filesystem, f"{root}/a") == below
    assert listed(filesystem, root, recursive=False) == {f"{root}/a": DIRECTORY, f"{root}/c": DIRECTORY}
    restored = pickle.loads(pickle.dumps(filesystem))
    assert restored == filesystem and restored.get_file_info(f"{root}/a").type == DIRECTORY


def test_deletes(filesystem, root):
    for name in ("a/b/file", "a/file", "c/file"):
        write(filesystem, f"{root}/{name}")
    filesystem.delete_dir(f"{root}/a")
    assert filesystem.get_file_info(f"{root}/a").type == MISSING
    with pytest.raises(FileNotFoundError):
        filesystem.delete_dir(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        filesystem.delete_dir_contents(f"{root}/a")
    filesystem.delete_dir_contents(f"{root}/a", missing_dir_ok=True)
    filesystem.delete_dir_contents(root)
    assert listed(filesystem, root) == {} if filesystem.get_file_info(root).type == DIRECTORY else True
    with pytest.raises(FileNotFoundError):
        filesystem.delete_file(f"{root}/c/file")
    with pytest.raises(NotImplementedError):
        filesystem.delete_dir_contents("/", accept_root_dir=True)


def test_listings_of_what_is_not_there(filesystem, root):
    with pytest.raises(FileNotFoundError):
        filesystem.get_file_info(fs.FileSelector(f"{root}/nothing"))
    assert filesystem.get_file_info(fs.FileSelector(f"{root}/nothing", allow_not_found=True)) == []
    write(filesystem, f"{root}/file")
    with pytest.raises(OSError):
        filesystem.get_file_info(fs.FileSelector(f"{root}/file"))


def test_a_bucket_that_is_not_there_is_never_an_empty_one(s3_store):
    filesystem = build_checkpoint_filesystem("s3://never-made-by-anyone/x", s3_store.storage_options)
    with pytest.raises(FileNotFoundError, match="bucket"):
        filesystem.get_file_info(fs.FileSelector("never-made-by-anyone/x", allow_not_found=True))


def test_moves(filesystem, root):
    write(filesystem, f"{root}/from", b"one")
    write(filesystem, f"{root}/to", b"two")
    filesystem.move(f"{root}/from", f"{root}/to")
    assert filesystem.open_input_file(f"{root}/to").read() == b"one"
    with pytest.raises(FileNotFoundError):
        filesystem.move(f"{root}/from", f"{root}/to")
    write(filesystem, f"{root}/dir/file")
    with pytest.raises(IsADirectoryError):
        filesystem.move(f"{root}/dir", f"{root}/other")


class GaveUp(Exception):
    pass


def test_what_an_error_cut_short_is_never_there(filesystem, root):
    filesystem.create_dir(root)
    table = pa.table({"a": list(range(1000))})
    with pytest.raises(GaveUp), filesystem.open_output_stream(f"{root}/stream") as out:
        out.write(b"half")
        raise GaveUp
    with pytest.raises(GaveUp), pq.ParquetWriter(f"{root}/x.parquet", table.schema, filesystem=filesystem) as writer:
        writer.write_table(table)
        raise GaveUp
    with (
        pytest.raises(GaveUp),
        filesystem.open_output_stream(f"{root}/y.parquet") as out,
        pq.ParquetWriter(out, table.schema) as writer,
    ):
        writer.write_table(table)
        raise GaveUp
    assert filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True)) == []


def test_a_file_that_nobody_closes_is_not_there_and_that_is_told(filesystem, root):
    filesystem.create_dir(root)
    out = filesystem.open_output_stream(f"{root}/file")
    out.write(b"data")
    with pytest.warns(RuntimeWarning, match="never closed"):
        del out
        gc.collect()
    assert filesystem.get_file_info(f"{root}/file").type == MISSING


def test_tables_and_datasets(filesystem, root):
    table = pa.table({"a": list(range(10_000)), "b": [f"row {number}" for number in range(10_000)]})
    filesystem.create_dir(root)
    pq.write_table(table, f"{root}/one.parquet", filesystem=filesystem, row_group_size=1_000)
    assert pq.read_table(f"{root}/one.parquet", filesystem=filesystem).equals(table)
    assert pq.ParquetFile(f"{root}/one.parquet", filesystem=filesystem).read_row_group(3).num_rows == 1_000
    parts = table.append_column("part", pa.array([number % 3 for number in range(10_000)]))
    pyarrow.dataset.write_dataset(
        parts, f"{root}/set", format="parquet", partitioning=["part"], filesystem=filesystem, partitioning_flavor="hive"
    )
    read = pyarrow.dataset.dataset(f"{root}/set", filesystem=filesystem, partitioning="hive")
    assert read.count_rows() == 10_000
    assert read.to_table(filter=pyarrow.dataset.field("part") == 1, columns=["a"]).num_rows == 3_333
    with filesystem.open_output_stream(f"{root}/one.csv") as out:
        pyarrow.csv.write_csv(table, out)
    with filesystem.open_input_stream(f"{root}/one.csv") as stream:
        assert pyarrow.csv.read_csv(stream).equals(table)


def test_streams_read_ahead_and_files_read_what_is_asked(filesystem, root):
    data = bytes(range(256)) * 100_000
    write(filesystem, f"{root}/large", data)
    with filesystem.open_input_stream(f"{root}/large") as stream:
        pieces = [stream.read(100_003) for _ in range(256)]
        assert b"".join(pieces) == data[: 256 * 100_003]
    with filesystem.open_input_file(f"{root}/large") as file:
        assert file.size() == len(data)
        assert file.read_at(10, 25_000_000) == data[25_000_000:25_000_010]
        assert file.read_at(100, len(data) - 10) == data[-10:]
        file.seek(1)
        assert file.read() == data[1:]


def test_a_path_of_this_machine_gives_a_local_filesystem(tmp_path):
    for path in (tmp_path, str(tmp_path), f"file://{tmp_path}", "some/where"):
        assert isinstance(build_checkpoint_filesystem(path), fs.LocalFileSystem)


def test_a_directory_that_was_made_is_there_without_files(filesystem, root, place):
    """As Ray before 2.56 wants it of its checkpoint, also in a worker that has nothing but what was pickled."""
    with pytest.raises(FileNotFoundError):
        listed(filesystem, f"{root}/a/b")
    filesystem.create_dir(f"{root}/a/b")
    for here in (filesystem, pickle.loads(pickle.dumps(filesystem))):
        kinds = [one.type for one in here.get_file_info([f"{root}/a", f"{root}/a/b/", f"{root}/a/c", f"{root}/a/bc"])]
        assert kinds == [DIRECTORY, DIRECTORY, MISSING, MISSING]
        assert listed(here, f"{root}/a/b") == {}
    write(filesystem, f"{root}/a/b/file")
    filesystem.delete_dir_contents(f"{root}/a/b")
    assert listed(filesystem, f"{root}/a/b") == {}
    filesystem.delete_dir(f"{root}/a/b")
    assert filesystem.get_file_info(f"{root}/a/b").type == MISSING
    with pytest.raises(FileNotFoundError):
        filesystem.delete_dir(f"{root}/a/b")
    if not place.has_directories:
        other = fs.PyFileSystem(StoreHandler(place.scheme, place.storage_options))
        filesystem.create_dir(f"{root}/a/b")
        assert other.get_file_info(f"{root}/a/b").type == MISSING, "nothing was written"


def test_a_bucket_root_serves_reads_and_writes(s3_store):
    bucket = s3_store.new_root()
    filesystem = build_checkpoint_filesystem(f"s3://{bucket}", s3_store.storage_options)
    assert filesystem.get_file_info(bucket).type == DIRECTORY
    assert filesystem.get_file_info(fs.FileSelector(bucket)) == []
    write(filesystem, f"{bucket}/file")
    assert listed(filesystem, f"{bucket}/") == {f"{bucket}/file": FILE}
    assert filesystem.open_input_file(f"{bucket}/file").read() == b"data"
    filesystem.delete_dir_contents(bucket)
    assert listed(filesystem, bucket) == {}


def test_what_is_wrong_is_told_when_it_is_built():
    for path in ("s3://", "s3://bucket/a//b", "s3://user:hidden@bucket/x", "s3:/bucket/x"):
        with pytest.raises(ValueError) as raised:
            build_checkpoint_filesystem(path)
        assert "hidden" not in str(raised.value)
    with pytest.raises(NotImplementedError, match="did you mean"):
        build_checkpoint_filesystem("oos://bucket/x")
    with pytest.raises(ValueError, match="no plain value: it is of the type object"):
        build_checkpoint_filesystem("s3://bucket/x", {"s3": {"key": object()}})
    with pytest.raises(ValueError, match="by protocol"):
        build_checkpoint_filesystem("s3://bucket/x", {"key": "x"})
    with pytest.raises(ValueError, match="did you mean"):
        build_checkpoint_filesystem("/some/where", {"s3": {"kee": "x"}})


def test_a_path_that_means_nothing_never_ends_the_process(filesystem, root):
    rooted = fs.SubTreeFileSystem(f"{root}/../elsewhere/", filesystem)
    with pytest.raises((ValueError, OSError)):
        rooted.open_input_file("x")


def test_filesystems_of_others_are_taken(tmp_path):
    own = build_checkpoint_filesystem("memory://x")
    assert to_pyarrow(own) is own
    local = fs.LocalFileSystem()
    assert to_pyarrow(local) is local
    assert to_pyarrow(StoreHandler("memory")) == own
    theirs = to_pyarrow(fsspec.filesystem("file"))
    with theirs.open_output_stream(str(tmp_path / "file")) as out:
        out.write(b"through fsspec")
    assert (tmp_path / "file").read_bytes() == b"through fsspec"
    ours = to_pyarrow(CheckpointFileSystem(scheme="s3", key="k", secret="s"))
    assert ours == build_checkpoint_filesystem("s3://x", {"s3": {"key": "k", "secret": "s"}})
    with pytest.raises(TypeError, match=r"wanted, not a str"):
        to_pyarrow("s3://bucket")
    with pytest.raises(errors.NotFoundError):
        to_pyarrow(CheckpointFileSystem(scheme="memory")).open_input_file("no/such")
