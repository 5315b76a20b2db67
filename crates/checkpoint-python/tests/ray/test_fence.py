"""What a worker may still do once its run is over: nothing."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from ray.data import DataContext

from checkpoint_store._native import ClusterAttempt
from checkpoint_store.errors import ConflictError
from checkpoint_store.ray import runs
from checkpoint_store.ray.handlers import OutputHandler
from jobs import fails_on


@pytest.fixture
def worker(job, monkeypatch):
    """The checkpoint's filesystem as a worker of the running attempt has it."""
    job.put(range(40))
    job.configure(delete_checkpoint_on_success=False)
    config = DataContext.get_current().checkpoint_config
    kept = []
    start = runs.Run.start

    def started(run, writes):
        start(run, writes)
        kept.append(pickle.dumps(config.filesystem))

    monkeypatch.setattr(runs.Run, "start", started)
    with pytest.raises(Exception, match="told to fail"):
        job.run(fails_on(39))
    # In a worker there is no run to follow.
    monkeypatch.setattr(runs, "attempt_of", lambda key: None)
    return pickle.loads(kept[0])


def record(filesystem, job, name="late"):
    path = f"{job.checkpoint}/{name}_000001.pending.parquet"
    pq.write_table(pa.table({"id": [1000]}), path, filesystem=filesystem)
    return path


def test_a_worker_of_the_attempt_writes_and_publishes(worker, job):
    path = record(worker, job)
    worker.move(path, path.replace(".pending", ""))
    assert "late_000001.parquet" in job.records()


def later(job, **more):
    import json

    place = {"checkpoint": f"file://{job.checkpoint}", "output": f"file://{job.output}", "id_column": "id"}
    options = {"row_hash": False, "filter": None, "version": None, "inputs": None, "lease_url": None}
    flags = {"assume_exclusive": False, "allow_changed_read": False, "append": False}
    return ClusterAttempt.begin(json.dumps({**place, **options, **flags, **more}))[0]


def test_nothing_is_written_moved_or_looked_at_once_a_later_attempt_exists(worker, job):
    path = record(worker, job)
    attempt = later(job)
    assert attempt.number == 2
    for effect in [
        lambda: record(worker, job, "later"),
        lambda: worker.move(path, path.replace(".pending", "")),
        lambda: worker.delete_file(path),
    ]:
        with pytest.raises(ConflictError, match="attempt 1 no longer owns the checkpoint, a later one has begun"):
            effect()
    attempt.end("failed")


def test_nor_once_the_job_has_ended_nor_in_another_that_begins_there(worker, job):
    path = record(worker, job)
    later(job).finish(False)
    assert job.files() == []
    with pytest.raises(ConflictError, match="its job has ended"):
        worker.move(path, path.replace(".pending", ""))
    another = later(job, output=f"file://{job.output}-2")
    assert another.number == 1, "numbers begin anew"
    with pytest.raises(ConflictError, match="its job has ended"):
        record(worker, job, "much-later")
    another.end("failed")


def test_of_two_tries_of_a_task_the_first_is_kept(worker, job):
    path = record(worker, job)
    target = path.replace(".pending", "")
    worker.move(path, target)
    first = pq.read_table(target)
    record(worker, job)
    worker.move(path, target)
    assert pq.read_table(target) == first
    other = f"{job.checkpoint}/late_000001.pending.parquet"
    pq.write_table(pa.table({"id": [2000]}), other, filesystem=worker)
    with pytest.raises(ConflictError, match="other IDs"):
        worker.move(other, target)


def test_what_the_first_try_wrote_stays_only_where_it_serves_the_second(worker, job, guarded):
    """The second try of a task, whose first one was stopped between its data and its record."""
    name = "0123456789abcdef0123456789abcdef_000007"
    data, pending = f"{job.output}/{name}-0.parquet", f"{job.checkpoint}/{name}.pending.parquet"

    def write(ids, **columns):
        pq.write_table(pa.table({"id": ids}), pending, filesystem=worker)
        # Of a path pyarrow would delete the file that it could not write.
        with guarded.open_output_stream(data) as out:
            pq.write_table(pa.table({"id": ids, **columns}), out)

    write([1, 2], word=["a", "b"])
    write([1, 2], word=["a", "b"])
    write([2, 1], word=["d", "c"])
    assert pq.read_table(data)["word"].to_pylist() == ["a", "b"], "the first one's, of the same rows"
    for others in ([2, 3], [1], [1, 2, 3]):
        with pytest.raises(ConflictError, match="another try of this task has written other rows"):
            write(others, word=["x"] * len(others))
    assert pq.read_table(data)["id"].to_pylist() == [1, 2]
    write([1, 2], word=["e", "f"])
    worker.move(pending, pending.replace(".pending", ""))
    write([1, 2], word=["g", "h"])
    assert pq.read_table(data)["word"].to_pylist() == ["a", "b"]


@pytest.fixture
def guarded(worker, job):
    """The output's filesystem as that worker has it."""
    handler = OutputHandler("file", None, job.output, worker.handler.fence)
    return fs.PyFileSystem(handler)
