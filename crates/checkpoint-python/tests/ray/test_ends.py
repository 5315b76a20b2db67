"""Jobs that have ended, and what comes after them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from ray.data import DataContext

from checkpoint_store import CheckpointStore
from checkpoint_store.errors import ConflictError, InvalidConfigError
from checkpoint_store.ray import checkpoint_config, plugins
from jobs import fails_on


def test_new_files_after_the_end_are_not_taken_for_done(job):
    job.put(range(40))
    job.configure()
    job.run()
    pq.write_table(pa.table({"id": range(40, 50)}), f"{job.input}/part-9.parquet")
    with pytest.raises(ConflictError, match="input file added"):
        job.run()
    job.holds_once(range(40))
    job.configure(append=True)
    job.read().filter(lambda row: row["id"] >= 40).write_parquet(job.output)
    job.holds_once(range(50))


def test_rows_that_come_from_no_file_are_not_taken_for_done(job):
    job.configure()
    ray.data.from_items([{"id": one} for one in range(10)]).write_parquet(job.output)
    with pytest.raises(ConflictError, match="nobody knows which files are read"):
        ray.data.from_items([{"id": one} for one in range(20)]).write_parquet(job.output)
    job.holds_once(range(10))


def test_the_same_checkpoint_serves_another_output_once_its_job_has_ended(job):
    """As a daily job does it, with one path for the checkpoint and a new one for the output."""
    job.put(range(40))
    job.configure()
    job.run()
    job.read().write_parquet(job.output + "-2")
    assert pq.read_table(job.output + "-2").num_rows == 40


def test_files_may_come_while_the_job_goes_on(job):
    job.put(range(40))
    job.configure(delete_checkpoint_on_success=False)
    job.run()
    pq.write_table(pa.table({"id": range(40, 50)}), f"{job.input}/part-9.parquet")
    job.run()
    job.holds_once(range(50))


def test_a_configuration_made_anew_goes_on_with_the_job(job):
    job.put(range(40))
    job.configure()
    old = DataContext.get_current().checkpoint_config
    with pytest.raises(Exception, match="told to fail on 39"):
        job.run(fails_on(39))
    DataContext.get_current().checkpoint_config = checkpoint_config("id", job.checkpoint)
    assert old is not DataContext.get_current().checkpoint_config
    job.run()
    job.holds_once(range(40))


def test_a_run_that_cannot_start_gives_its_lease_back(job, monkeypatch):
    job.put(range(40))
    job.configure()
    monkeypatch.setattr(plugins, "_writes_of", lambda executor: ["short"])
    with pytest.raises(InvalidConfigError, match="short"):
        job.run()
    last = CheckpointStore(job.checkpoint).status().last_attempt
    assert last is not None and last.state == "failed"
    monkeypatch.undo()
    job.run()
    job.holds_once(range(40))
