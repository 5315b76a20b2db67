"""Where a job's directories may be, and how they may be said."""

from __future__ import annotations

import pickle
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from pyarrow import fs
from ray.data import DataContext

from checkpoint_store import CheckpointFileSystem, build_checkpoint_filesystem
from checkpoint_store.errors import InvalidConfigError
from checkpoint_store.ray import DatasetContext, checkpoint_config, read_parquet, write_parquet
from checkpoint_store.ray.plugins import settings_of
from jobs import fails_on


@pytest.fixture
def bucket(s3_store):
    """The options of an S3 server, and a bucket with an input in it."""
    root = s3_store.new_root()
    filesystem = build_checkpoint_filesystem(f"s3://{root}", s3_store.storage_options)
    table = pa.table({"id": range(120)})
    for number in range(4):
        pq.write_table(table.slice(number * 30, 30), f"{root}/input/{number}.parquet", filesystem=filesystem)
    return s3_store, root, filesystem


def twice(run, written):
    """Fails the first time, and is finished the second."""
    with pytest.raises(Exception, match="told to fail on 119"):
        run(fails_on(119))
    assert 0 < len(written()) < 120
    run(None)
    assert sorted(written()) == list(range(120))


def ids_in(filesystem, folder):
    def written():
        infos = filesystem.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
        paths = [info.path for info in infos if info.path.endswith(".parquet")]
        return [one for path in paths for one in pq.read_table(path, filesystem=filesystem)["id"].to_pylist()]

    return written


@pytest.mark.parametrize("how", ["options", "ours", "pyarrow", "fsspec"])
def test_s3_however_it_is_said(bucket, how):
    store, root, filesystem = bucket
    given = store.options
    url = f"s3://{root}"
    if how == "options":
        config = checkpoint_config("id", f"{url}/checkpoint", store.storage_options)
        data = filesystem
    elif how == "ours":
        config = checkpoint_config("id", f"{root}/checkpoint", override_filesystem=filesystem)
        data = filesystem
    elif how == "pyarrow":
        scheme, _, endpoint = given["endpoint_url"].partition("://")
        data = fs.S3FileSystem(
            access_key=given["key"],
            secret_key=given["secret"],
            endpoint_override=endpoint,
            scheme=scheme,
            region="us-east-1",
        )
        config = checkpoint_config("id", f"{root}/checkpoint", override_filesystem=data)
    else:
        config = checkpoint_config(
            "id", f"{url}/checkpoint", override_filesystem=CheckpointFileSystem(scheme="s3", **given)
        )
        data = filesystem
    DataContext.get_current().checkpoint_config = config

    def run(step):
        rows = ray.data.read_parquet(f"{root}/input", filesystem=data)
        if step is not None:
            rows = rows.map_batches(step, batch_size=10, batch_format="pyarrow")
        rows.write_parquet(f"{root}/output", filesystem=data)

    twice(run, ids_in(filesystem, f"{root}/output"))
    assert not [info for info in filesystem.get_file_info(fs.FileSelector(f"{root}/checkpoint", allow_not_found=True))]


def test_options_of_the_context_serve_reads_writes_and_the_checkpoint(bucket):
    store, root, filesystem = bucket
    context = DatasetContext.get_current()
    context.storage_options = store.storage_options
    try:
        context.checkpoint_config = checkpoint_config("id", f"s3://{root}/checkpoint")

        def run(step):
            rows = read_parquet(f"s3://{root}/input")
            if step is not None:
                rows = rows.map_batches(step, batch_size=10, batch_format="pyarrow")
            write_parquet(rows, f"s3://{root}/output")

        twice(run, ids_in(filesystem, f"{root}/output"))
    finally:
        context.storage_options = None


def test_the_checkpoint_on_a_store_and_the_output_on_a_disk(bucket, tmp_path):
    store, root, filesystem = bucket
    DataContext.get_current().checkpoint_config = checkpoint_config(
        "id", f"s3://{root}/checkpoint", store.storage_options
    )

    def run(step):
        rows = ray.data.read_parquet(f"{root}/input", filesystem=filesystem)
        if step is not None:
            rows = rows.map_batches(step, batch_size=10, batch_format="pyarrow")
        rows.write_parquet(str(tmp_path / "output"))

    twice(run, ids_in(fs.LocalFileSystem(), str(tmp_path / "output")))


def test_a_configuration_pickles_with_what_was_given_and_no_more(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ID-of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment")
    config = checkpoint_config("id", "s3://bucket/checkpoint", {"s3": {"endpoint_url": "http://given:1"}})
    pickled = pickle.dumps(config)
    assert b"http://given:1" in pickled and b"of-the-environment" not in pickled
    again = pickle.loads(pickled)
    assert again.checkpoint_path == "s3://bucket/checkpoint" and again.filesystem == config.filesystem


def test_a_configuration_shows_no_secret():
    options = {"s3": {"key": "the-id", "secret": "the-secret", "endpoint_url": "http://given:1"}}
    config = checkpoint_config("id", "s3://bucket/checkpoint", options)
    settings = settings_of(config)
    assert settings is not None
    for text in (repr(settings), str(settings), repr(config), repr(config.filesystem.handler), repr(vars(config))):
        assert "the-secret" not in text


def test_a_job_that_is_led_from_a_task_is_as_safe(job):
    """The configuration gets there by a pickle, in a process where nobody has made one."""
    job.put(range(200))
    config = checkpoint_config("id", job.checkpoint, delete_checkpoint_on_success=False)

    @ray.remote(num_cpus=0)
    def lead(job, step):
        from ray.data import DataContext

        context = DataContext.get_current()
        context.target_min_block_size, context.target_max_block_size = 1, 512
        context.checkpoint_config = config
        job.run(step)

    ray.cloudpickle.register_pickle_by_value(sys.modules["jobs"])
    with pytest.raises(Exception, match="told to fail on 199"):
        ray.get(lead.remote(job, fails_on(199)))
    done = job.written()
    assert 0 < len(done) < 200
    ray.get(lead.remote(job, None))
    job.holds_once(range(200))
    ray.get(lead.remote(job, None))
    job.holds_once(range(200))


def test_a_filesystem_whose_store_cannot_be_told_is_refused(tmp_path):
    other = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    with pytest.raises(InvalidConfigError, match="SubTreeFileSystem"):
        checkpoint_config("id", "checkpoint", override_filesystem=other)
