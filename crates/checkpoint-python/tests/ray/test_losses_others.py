"""What others do meanwhile: a second driver of the same job, and jobs behind a filesystem that keeps its listings."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter

import pytest
import ray
import s3fs
from processes import NODE, patiently
from ray.cluster_utils import Cluster
from ray.data import DataContext

from checkpoint_store.ray import checkpoint_config
from jobs import fails_on

from small_driver import wait_for  # isort: skip
from small_jobs import Driver, SmallJob  # isort: skip
from states import WRITE  # isort: skip

# Workers do not find this module, so what it defines goes to them whole.
ray.cloudpickle.register_pickle_by_value(sys.modules["jobs"])


@pytest.fixture(params=["disk", "s3"])
def shared(request, tmp_path):
    (tmp_path / "drivers").mkdir()
    if request.param == "disk":
        return SmallJob(f"file://{tmp_path}/job", {}, tmp_path / "drivers")
    store = request.getfixturevalue("s3_store")
    return SmallJob(f"s3://{store.new_root()}/job", store.storage_options, tmp_path / "drivers")


@pytest.fixture(scope="module")
def wide_cluster():
    """One where plain Ray's two pools of filters leave processors for tasks."""
    cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 8}))
    yield cluster.address
    cluster.shutdown()


@pytest.fixture
def drive(shared, wide_cluster):
    """Starts drivers, and ends those that are left."""
    started = []

    def start(*arguments, **options):
        started.append(Driver(shared, *arguments, address=wide_cluster, **options))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


def test_a8_two_drivers_of_plain_ray_at_once_double_all_that_is_left(shared, drive):
    for driver in [drive("one", "other", plain=True), drive("other", "one", plain=True)]:
        assert driver.answer()["error"] is None
    assert shared.written() == Counter([*range(200), *range(50, 200)])


def test_a8_the_second_of_two_drivers_is_refused(shared, drive):
    go = shared.folder / "go"
    first = drive("one", held=go)
    wait_for(f"{go}.reached")
    second = drive("other")
    answer = second.answer()
    assert answer["error"] == "ConflictError" and "checkpoint" in answer["text"], answer
    assert first.process.poll() is None
    go.touch()
    assert first.answer()["error"] is None
    shared.is_whole()


def test_a8_the_second_of_two_drivers_takes_over_when_the_first_is_killed(shared, drive):
    first = drive("one", held=shared.folder / "never")
    wait_for(f"{shared.folder}/never.reached")
    # It is there, and does not renew its lease any more: who sees it renewed is refused.
    os.kill(first.process.pid, signal.SIGSTOP)
    second = drive("other")
    wait_for(str(second.begins))
    first.kill()
    assert second.answer()["error"] is None
    shared.is_whole()


@pytest.fixture
def kept(s3_store, tmp_path):
    """A job, and a filesystem of s3fs that keeps its listings, as it does by itself."""
    job = SmallJob(f"s3://{s3_store.new_root()}/job", s3_store.storage_options, tmp_path)
    keys = {name: s3_store.options[name] for name in ("key", "secret", "endpoint_url")}
    return job, s3fs.S3FileSystem(**keys, use_listings_cache=True)


def test_a10_listings_that_s3fs_keeps_are_no_matter_with_ours(kept):
    """Plain Ray, given this object, loses or doubles what others wrote, by which of its workers have listed before."""
    job, filesystem = kept
    folders = [f"{job.root}/checkpoint", f"{job.root}/output"]
    before = [filesystem.ls(folder, detail=False) for folder in folders]
    # Another process goes on with the job.
    job.put(f"checkpoint/{WRITE}_000001.parquet", range(50, 100))
    job.put(f"output/{WRITE}_000001-0.parquet", range(50, 100))
    job.put(f"checkpoint/{WRITE}_000002.pending.parquet", range(100, 110))
    job.put(f"output/{WRITE}_000002-0.parquet", range(100, 110))
    assert [filesystem.ls(folder, detail=False) for folder in folders] == before, "it is not told of any of it"

    def run(step=None):
        DataContext.get_current().checkpoint_config = checkpoint_config(
            "id", folders[0], override_filesystem=filesystem, delete_checkpoint_on_success=False
        )
        data = ray.data.read_parquet(f"{job.root}/input", filesystem=filesystem, override_num_blocks=4)
        if step is not None:
            data = data.map_batches(step, batch_size=10, batch_format="pyarrow")
        data.write_parquet(folders[1], filesystem=filesystem)

    config = checkpoint_config("id", folders[0], override_filesystem=filesystem)
    assert set(config.filesystem.handler.storage_options["s3"]) == {"key", "secret", "endpoint_url"}
    for last in (149, 199):
        with pytest.raises(Exception, match=f"told to fail on {last}"):
            run(fails_on(last))
    run()
    job.is_whole()
    run()
    job.is_whole()
