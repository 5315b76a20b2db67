"""Plain Ray, its own recovery and all, with nothing of ours but the filesystem.

`just test-rays` runs this with each Ray that has checkpoints.
"""

from __future__ import annotations

import inspect
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from pyarrow import fs
from ray.data import DataContext
from ray.data.checkpoint import CheckpointConfig, checkpoint_writer

from checkpoint_store import CheckpointStore, build_checkpoint_filesystem
from jobs import fails_on

# Workers do not find this module, so what it defines goes to them whole.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: Whether this Ray writes a pending record before the data, which is what makes a task that was cut off known.
TWO_PHASES = "pending" in inspect.getsource(checkpoint_writer).lower()
two_phases = pytest.mark.skipif(not TWO_PHASES, reason=f"Ray {ray.__version__} has no pending records")


class Places:
    """A filesystem of ours, and an input, an output and a checkpoint in it."""

    def __init__(self, url: str, options: dict | None) -> None:
        self.url, self.options = url, options
        self.filesystem, self.root = build_checkpoint_filesystem(url, options), url.rpartition("://")[2]
        self.filesystem.create_dir(f"{self.root}/input")
        self.put("input", {f"{number}.parquet": range(number * 50, number * 50 + 50) for number in range(4)})

    def put(self, folder: str, files: dict) -> None:
        for name, ids in files.items():
            self.filesystem.create_dir(f"{self.root}/{folder}")
            pq.write_table(pa.table({"id": ids}), f"{self.root}/{folder}/{name}", filesystem=self.filesystem)

    def run(self, step=None) -> None:
        data = ray.data.read_parquet(f"{self.root}/input", filesystem=self.filesystem)
        if step is not None:
            data = data.map_batches(step, batch_size=10, batch_format="pyarrow")
        data.write_parquet(f"{self.root}/output", filesystem=self.filesystem)

    def files(self, folder: str) -> list[str]:
        selector = fs.FileSelector(f"{self.root}/{folder}", allow_not_found=True, recursive=True)
        return sorted(info.path for info in self.filesystem.get_file_info(selector) if info.is_file)

    def written(self) -> list[int]:
        paths = self.files("output")
        return sorted(
            one for path in paths for one in pq.read_table(path, filesystem=self.filesystem)["id"].to_pylist()
        )

    def configure(self, **options) -> None:
        DataContext.get_current().checkpoint_config = CheckpointConfig(
            "id", f"{self.root}/checkpoint", override_filesystem=self.filesystem, **options
        )


@pytest.fixture(params=["file", "s3"])
def places(request, tmp_path):
    """On this machine, and on S3; Ray's own configuration with it."""
    if request.param == "file":
        places = Places(str(tmp_path), None)
    else:
        store = request.getfixturevalue("s3_store")
        places = Places(f"s3://{store.new_root()}", store.storage_options)
    places.configure(delete_checkpoint_on_success=False)
    return places


def test_a_job_that_fails_is_resumed(places):
    with pytest.raises(Exception, match="told to fail"):
        places.run(fails_on(199))
    assert 0 < len(places.written()) < 200
    places.run()
    assert places.written() == list(range(200))
    places.run()
    assert places.written() == list(range(200)), "and a third run adds none"


def test_the_end_of_a_job_deletes_its_checkpoint(places):
    places.configure()
    with pytest.raises(Exception, match="told to fail"):
        places.run(fails_on(199))
    assert places.files("checkpoint")
    places.run()
    assert places.written() == list(range(200))
    assert places.files("checkpoint") == []


@two_phases
def test_a_crash_between_the_copy_and_the_delete_of_a_move_loses_nothing(places):
    places.run()
    assert places.written() == list(range(200))
    for path in places.files("checkpoint"):
        # As a move leaves it that copies and deletes, and a task that was tried again, when they are killed in between.
        places.filesystem.copy_file(path, path.removesuffix(".parquet") + ".pending.parquet")
    places.run()
    assert places.written() == list(range(200))
    assert not any("pending" in path for path in places.files("checkpoint"))


@two_phases
def test_a_task_that_was_cut_off_is_done_again(places):
    """The data is there, and its record is pending."""
    places.put("checkpoint", {"w_000000.pending.parquet": range(50), "w_000001.parquet": range(50, 100)})
    places.put("output", {"w_000000-0.parquet": range(50), "w_000001-0.parquet": range(50, 100)})
    places.run()
    assert places.written() == list(range(200))


#: A pending record, and committed ones whose names begin with its name.
PREFIX = {
    "w_100000.pending.parquet": range(50),
    "w_1000000.parquet": range(50, 100),
    "w_1000001.parquet": range(100, 150),
}


@two_phases
@pytest.mark.parametrize("recovered", [False, True])
def test_a_name_that_begins_another_needs_a_recovery_of_ours(places, recovered):
    """No filesystem can keep Ray from deleting by the beginnings of names; what comes before it can."""
    places.put("checkpoint", PREFIX)
    places.put("output", {name.replace(".pending", "").replace(".", "-0."): ids for name, ids in PREFIX.items()})
    if recovered:
        report = CheckpointStore(f"{places.url}/checkpoint", places.options, output=f"{places.url}/output").recover()
        assert report
    places.run()
    lost = set(range(200)) - set(places.written())
    assert lost == (set() if recovered else set(range(50, 150)))
    assert len(places.written()) == 200 - len(lost)
