"""Plain Ray, its own recovery and all, with nothing of ours but the filesystem."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from pyarrow import fs
from ray.data import DataContext
from ray.data.checkpoint import CheckpointConfig

from checkpoint_store import build_checkpoint_filesystem
from jobs import fails_on


@pytest.fixture
def places(s3_store):
    """A filesystem on S3, and an input, an output and a checkpoint there."""
    root = s3_store.new_root()
    filesystem = build_checkpoint_filesystem(f"s3://{root}", s3_store.storage_options)
    table = pa.table({"id": range(200)})
    for number in range(4):
        pq.write_table(table.slice(number * 50, 50), f"{root}/input/{number}.parquet", filesystem=filesystem)
    DataContext.get_current().checkpoint_config = CheckpointConfig(
        "id", f"{root}/checkpoint", override_filesystem=filesystem, delete_checkpoint_on_success=False
    )
    return filesystem, root


def run(places, step=None):
    filesystem, root = places
    data = ray.data.read_parquet(f"{root}/input", filesystem=filesystem)
    if step is not None:
        data = data.map_batches(step, batch_size=10, batch_format="pyarrow")
    data.write_parquet(f"{root}/output", filesystem=filesystem)


def files(places, folder):
    filesystem, root = places
    infos = filesystem.get_file_info(fs.FileSelector(f"{root}/{folder}", allow_not_found=True, recursive=True))
    return sorted(info.path for info in infos if info.type == fs.FileType.File)


def written(places):
    paths = files(places, "output")
    return sorted(one for path in paths for one in pq.read_table(path, filesystem=places[0])["id"].to_pylist())


def test_a_crash_between_the_copy_and_the_delete_of_a_move_loses_nothing(places):
    filesystem, _ = places
    run(places)
    assert written(places) == list(range(200))
    for path in files(places, "checkpoint"):
        # As a move leaves it that copies and deletes, and is killed in between.
        filesystem.copy_file(path, path.removesuffix(".parquet") + ".pending.parquet")
    run(places)
    assert written(places) == list(range(200))
    assert not any("pending" in path for path in files(places, "checkpoint"))


def test_a_job_that_fails_is_resumed(places):
    with pytest.raises(Exception, match="told to fail"):
        run(places, fails_on(199))
    assert 0 < len(written(places)) < 200
    run(places)
    assert written(places) == list(range(200))
