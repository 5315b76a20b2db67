"""Plans that would come out wrong after a resume, and settings that are wrong: refused before any work."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import ray
from pyarrow import fs
from ray.data import DataContext
from ray.data.datasource import Datasink, FilenameProvider
from ray.data.expressions import col

from checkpoint_store import build_checkpoint_filesystem
from checkpoint_store.errors import BadDataError, ConflictError, InvalidConfigError
from checkpoint_store.ray import checkpoint_config, write_parquet
from jobs import fails_on

# Workers do not find this module, so what it defines goes to them whole.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


STEPS = {
    "groupby": lambda job: job.read().groupby("id").count(),
    "join": lambda job: job.read().join(job.read(), "inner", 2, on=("id",)),
    "shuffle": lambda job: job.read().random_shuffle(),
    "sort": lambda job: job.read().sort("id"),
    "limit": lambda job: job.read().limit(10),
    "aggregate": lambda job: job.read().groupby("id").sum("id"),
    "repartition by key": lambda job: job.read().repartition(2, keys=["id"]),
    "union": lambda job: job.read().union(ray.data.from_items([{"key": 1}])),
    "union of numbers and text": lambda job: job.read().union(ray.data.from_items([{"id": "a"}])),
    "zip of the same IDs": lambda job: job.read().zip(job.read().map_batches(lambda rows: rows)),
    "zip": lambda job: job.read().zip(ray.data.from_items([{"key": one} for one in range(100)])),
    "missing": lambda job: ray.data.from_items([{"key": 1}]),
    "renamed": lambda job: job.read().rename_columns({"id": "key"}),
    "dropped": lambda job: job.read().with_column("key", col("id")).select_columns(["key"]),
}


@pytest.mark.parametrize("step", STEPS)
def test_steps_that_mix_rows_are_refused(job, step):
    job.put(range(100))
    job.configure()
    data = STEPS[step](job)
    with pytest.raises(InvalidConfigError, match="hint: "):
        data.write_parquet(job.output)
    assert not Path(job.output).exists() or job.written() == []
    assert job.files() == [], "nothing was begun"


def test_an_id_that_a_step_makes_is_refused(job):
    job.put(range(100))
    DataContext.get_current().checkpoint_config = checkpoint_config("made", job.checkpoint)
    data = job.read().map(lambda row: {**row, "made": row["id"]})
    with pytest.raises(InvalidConfigError, match="the ID column is not in what is read: column='made'"):
        data.write_parquet(job.output)


@pytest.mark.parametrize("mode", ["overwrite", "ignore", "error"])
def test_a_resume_only_adds(job, mode):
    job.put(range(100))
    job.configure()
    with pytest.raises(Exception, match="told to fail"):
        job.run(fails_on(99))
    done = job.written()
    with pytest.raises(InvalidConfigError, match="a resume adds to what is there"):
        job.read().write_parquet(job.output, mode=mode)
    assert done and job.written() == done
    job.run()
    job.holds_once(range(100))


def test_a_whole_run_may_replace_what_was_there(job):
    job.put(range(50))
    job.configure()
    for _ in range(2):
        job.read().write_parquet(job.output, mode="overwrite")
        job.holds_once(range(50))


def test_failures_that_are_tolerated_are_not_deleted_with_the_checkpoint(job):
    job.put(range(100))
    job.configure()
    context = DataContext.get_current()
    context.max_errored_blocks = 1
    try:
        with pytest.raises(InvalidConfigError, match="max_errored_blocks"):
            job.run()
    finally:
        context.max_errored_blocks = 0


class Committing(Datasink):
    """As Iceberg's and Lance's: the driver commits what tasks wrote."""

    def write(self, blocks, ctx):
        return None

    def on_write_complete(self, write_result):
        pass


class Inserting(Datasink):
    """As a database's."""

    def __init__(self, path):
        self.path = path

    def write(self, blocks, ctx):
        for block in blocks:
            with open(self.path, "a") as lines:
                lines.writelines(f"{row}\n" for row in block["id"].to_pylist())


@pytest.mark.parametrize("sink", [Committing(), Inserting("x")])
def test_sinks_that_cannot_be_taken_back_are_refused(job, sink):
    job.put(range(100))
    job.configure()
    with pytest.raises(InvalidConfigError, match="idempotent_sink"):
        job.read().write_datasink(sink)


def test_an_idempotent_sink_resumes(job, tmp_path):
    job.put(range(100))
    job.configure(idempotent_sink=True, delete_checkpoint_on_success=False)
    seen = tmp_path / "rows"
    with pytest.raises(Exception, match="told to fail"):
        job.read().map_batches(fails_on(99), batch_format="pyarrow").write_datasink(Inserting(str(seen)))
    job.read().write_datasink(Inserting(str(seen)))
    assert {int(line) for line in seen.read_text().split()} == set(range(100))
    before = seen.read_text()
    job.read().write_datasink(Inserting(str(seen)))
    assert seen.read_text() == before


class Named(FilenameProvider):
    def __init__(self, pattern):
        self.pattern = pattern

    def get_filename_for_task(self, write_uuid, task_index):
        return self.pattern.format(write=write_uuid, task=task_index)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("part_{task}.parquet", "do not contain the UUID of the write"),
        ("part_{write}.parquet", "do not contain the number of the task"),
        ("{write}_{task:06}-{{i}}.parquet", "another name than its data"),
        ("shard_{{i}}_{write}_{task:06}.parquet", "another name than its data"),
    ],
)
def test_names_that_tell_no_task_of_a_run_are_refused(job, pattern, why):
    job.put(range(100))
    job.configure()
    with pytest.raises(InvalidConfigError, match=why):
        job.read().write_parquet(job.output, filename_provider=Named(pattern))
    assert job.files() == []


@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_an_attempt_that_has_committed_nothing_is_a_resume_too(job, mode):
    """It may have data in the output, and workers at work."""
    job.put(range(100))
    job.configure()
    with pytest.raises(Exception, match="told to fail"):
        job.read().map_batches(fails_on(0), batch_format="pyarrow").write_parquet(job.output)
    for record in job.records():
        Path(job.checkpoint, record).unlink()
    with pytest.raises(InvalidConfigError, match="a resume adds to what is there"):
        job.read().write_parquet(job.output, mode=mode)
    job.run()
    job.holds_once(range(100))


@pytest.mark.parametrize("ids", [pa.array([1, 2, None]), pa.array(["a", "", "b"]), pa.array([1.5, 2.5, 3.5])])
def test_what_cannot_be_an_id_is_refused_before_its_data_is_written(job, ids):
    job.put(ids, files=1)
    job.configure()
    with pytest.raises(Exception, match="IDs|ID") as raised:
        job.run()
    assert "float" in str(raised.value).lower() or "record" in str(raised.value)
    assert not Path(job.output).exists() or job.written() == []


def test_one_row_that_becomes_several_ends_in_an_error(job):
    job.put(range(20))
    job.configure()
    with pytest.raises(Exception, match="an ID is in a task more than once"):
        job.read().flat_map(lambda row: [row, row, row]).write_parquet(job.output)
    assert job.written() == []


def test_the_same_ids_in_two_tasks_end_in_an_error(job):
    table = pa.table({"id": range(50)})
    job.configure()
    for _ in range(2):
        with pytest.raises(BadDataError, match="IDs were committed more than once: rows=100 ids=50"):
            ray.data.from_arrow([table, table]).write_parquet(job.output)
        assert len(job.records()) == 2, "the checkpoint stays"


def test_a_checkpoint_that_lies_in_the_output_is_refused(job):
    job.put(range(10))
    DataContext.get_current().checkpoint_config = checkpoint_config("id", job.output + "/checkpoint")
    with pytest.raises(InvalidConfigError, match="output"):
        job.run()
    assert not Path(job.output).exists() or job.written() == []


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"id_column": ""}, "the ID column is no name"),
        ({"write_num_threads": 0}, "write_num_threads is at least 1"),
        ({"checkpoint_path_partition_filter": object()}, "leave out records"),
        ({"checkpoint_path": "coss://bucket/x"}, "did you mean"),
        ({"storage_options": {"s3": {"kye": "x"}}, "checkpoint_path": "s3://b/x"}, "kye is not an option of `s3`"),
    ],
)
def test_settings_that_are_wrong_say_what_is_right(tmp_path, arguments, what):
    given = {"id_column": "id", "checkpoint_path": str(tmp_path / "c"), **arguments}
    with pytest.raises((InvalidConfigError, NotImplementedError), match=what):
        checkpoint_config(given.pop("id_column"), given.pop("checkpoint_path"), **given)


def test_a_place_that_is_another_one_in_each_process_is_refused(job):
    """As a local disk of each machine is. Here it is the memory of each process."""
    job.put(range(10))
    apart = f"memory://{Path(job.input).parent.name}"
    DataContext.get_current().checkpoint_config = checkpoint_config("id", f"{apart}/checkpoint")
    with pytest.raises(ConflictError, match=f"not every machine sees the same .*url={apart}/checkpoint"):
        job.run()
    job.configure()
    with pytest.raises(ConflictError, match=f"not every machine sees the same .*url={apart}/output"):
        write_parquet(job.read(), f"{apart}/output")
    filesystem = build_checkpoint_filesystem(apart)
    inside = fs.FileSelector(apart.partition("://")[2], recursive=True, allow_not_found=True)
    assert filesystem.get_file_info(inside) == [] and job.files() == [], "nothing is left of the trial"


def test_a_dataset_that_was_made_before_is_told(job, caplog):
    job.put(range(10))
    data = job.read()
    job.configure()
    with caplog.at_level(logging.WARNING):
        data.write_parquet(job.output)
    assert "configured after this Dataset was made" in caplog.text


def test_reading_with_the_checkpoint_on_is_told(job, caplog):
    job.put(range(10))
    job.configure()
    with caplog.at_level(logging.WARNING):
        assert job.read().count() == 10
        assert len(job.read().take(3)) == 3
    assert "nothing is written" in caplog.text
    assert job.files() == []
