"""Jobs that fail, and are run again."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import ray
from ray.data import DataContext

from checkpoint_store.errors import ConflictError
from checkpoint_store.ray import checkpointing_off, run_with_resume
from jobs import fails_on


def calls_of(tmp_path: Path):
    """A step that leaves a line for each row it saw."""
    seen = tmp_path / "seen.txt"

    def step(table: pa.Table) -> pa.Table:
        with seen.open("a") as lines:
            lines.writelines(f"{one}\n" for one in table["id"].to_pylist())
        return table

    return step, lambda: [int(line) for line in seen.read_text().split()] if seen.exists() else []


def test_a_job_that_fails_is_finished_by_the_next_run_and_a_third_writes_nothing(job, tmp_path):
    job.put(range(400))
    job.configure()
    with pytest.raises(Exception, match="told to fail on 399"):
        job.run(fails_on(399))
    done = job.written()
    assert 0 < len(done) < 400, "some tasks were done before"
    assert job.records(), "and recorded"

    step, seen = calls_of(tmp_path)
    job.run(step)
    job.holds_once(range(400))
    assert sorted(seen()) == sorted(set(range(400)) - set(done)), "only what was left is computed"
    assert job.files() == [], "the checkpoint is gone"
    assert list(Path(job.output).glob("_CHECKPOINT_COMPLETE-*.json"))

    step, seen = calls_of(tmp_path / ".." / tmp_path.name)
    before = len(seen())
    job.run(step)
    job.holds_once(range(400))
    assert len(seen()) == before, "the job is complete, and nothing is computed"


def test_a_checkpoint_that_is_kept_skips_all_rows(job):
    job.put(range(100))
    job.configure(delete_checkpoint_on_success=False)
    job.run()
    records = job.records()
    job.run()
    assert job.records() == records
    job.holds_once(range(100))


def test_the_same_process_may_try_again(job):
    """Xpark's way: one configuration, and the job in a function that is called until it is through."""
    job.put(range(200))
    job.configure()
    calls = []

    def once():
        calls.append(len(calls))
        job.run(fails_on(150) if len(calls) < 3 else None)

    run_with_resume(once, attempts=3, backoff=0.01)
    assert calls == [0, 1, 2]
    job.holds_once(range(200))


def test_two_halves_of_one_source_are_no_repeats(job):
    """Each is filtered behind a read of its own, which leaves out all that is done."""
    job.put(range(200))
    job.configure()

    def run(step):
        halves = [job.read().filter(lambda row, half=half: row["id"] % 2 == half) for half in range(2)]
        halves[0].union(halves[1]).map_batches(step, batch_size=10, batch_format="pyarrow").write_parquet(job.output)

    with pytest.raises(Exception, match="told to fail on 199"):
        run(fails_on(199))
    assert 0 < len(job.written()) < 200
    run(lambda table: table)
    job.holds_once(range(200))
    assert job.files() == []


def test_a_step_that_is_tried_again_in_its_task_leaves_rows_out_once(job, tmp_path):
    job.put(range(200))
    job.configure()
    with pytest.raises(Exception, match="told to fail on 199"):
        job.run(fails_on(199))
    once = tmp_path / "once"

    def fails_once(table):
        if not once.exists():
            once.touch()
            raise OSError("passes")
        return table

    context = DataContext.get_current()
    before = context.retried_map_errors, context.max_map_retries
    context.retried_map_errors, context.max_map_retries = ["passes"], 3
    try:
        job.run(fails_once)
    finally:
        context.retried_map_errors, context.max_map_retries = before
    assert once.exists()
    job.holds_once(range(200))
    assert job.files() == []


@pytest.mark.parametrize("make", ["items", "pandas", "arrow", "numpy", "materialized"])
def test_sources_that_ray_does_not_filter_are_filtered(job, make):
    ids = list(range(60))
    table = pa.table({"id": ids, "text": [str(one) for one in ids]})

    def source():
        if make == "items":
            return ray.data.from_items([{"id": one, "text": str(one)} for one in ids], override_num_blocks=6)
        if make == "pandas":
            return ray.data.from_pandas([table.slice(start, 10).to_pandas() for start in range(0, 60, 10)])
        if make == "arrow":
            return ray.data.from_arrow([table.slice(start, 10) for start in range(0, 60, 10)])
        if make == "numpy":
            return ray.data.from_items(ids, override_num_blocks=6).rename_columns({"item": "id"}).materialize()
        return ray.data.from_arrow([table.slice(start, 10) for start in range(0, 60, 10)]).materialize()

    job.configure(delete_checkpoint_on_success=False)
    step = fails_on(55)
    with pytest.raises(Exception, match="told to fail on 55"):
        source().map_batches(step, batch_format="pyarrow", batch_size=10).write_parquet(job.output)
    assert 0 < len(job.written()) < 60
    source().write_parquet(job.output)
    job.holds_once(ids)
    source().write_parquet(job.output)
    job.holds_once(ids)


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
@pytest.mark.parametrize("operation", ["map", "map_batches", "filter", "flat_map", "with_column"])
def test_every_step_of_a_row_and_every_file_format(job, form, operation):
    from ray.data.expressions import col

    job.put(range(80))
    job.configure()

    def run(fail: bool):
        def check(row):
            if fail and row["id"] == 75:
                raise RuntimeError("told to fail")
            return row

        data = job.read().map(check)
        data = {
            "map": lambda: data.map(lambda row: {**row, "n": row["id"] * 2}),
            "map_batches": lambda: data.map_batches(lambda batch: {**batch, "n": batch["id"] * 2}),
            "filter": lambda: data.filter(lambda row: row["id"] % 2 == 0),
            "flat_map": lambda: data.flat_map(lambda row: [row]),
            "with_column": lambda: data.with_column("n", col("id") * 2),
        }[operation]()
        getattr(data, f"write_{form}")(job.output)

    with pytest.raises(Exception, match="told to fail"):
        run(True)
    run(False)
    readers = {"parquet": pd.read_parquet, "json": lambda path: pd.read_json(path, lines=True), "csv": pd.read_csv}
    files = [path for path in Path(job.output).iterdir() if not path.name.startswith("_")]
    ids = sorted(one for path in files for one in readers[form](path)["id"])
    assert ids == [one for one in range(80) if operation != "filter" or one % 2 == 0]


def test_blocks_of_pandas_are_filtered(job):
    job.put(range(40))
    job.configure(delete_checkpoint_on_success=False)
    job.read().map_batches(lambda frame: frame, batch_format="pandas").write_parquet(job.output)
    job.read().map_batches(lambda frame: frame, batch_format="pandas").write_parquet(job.output)
    job.holds_once(range(40))


def test_row_hashes_resume(job):
    job.put(range(120))
    from checkpoint_store.ray import checkpoint_config

    DataContext.get_current().checkpoint_config = checkpoint_config("row_hash", job.checkpoint)

    def run(step=None):
        data = ray.data.read_parquet(job.input, include_row_hash=True, override_num_blocks=4)
        if step is not None:
            data = data.map_batches(step, batch_format="pyarrow", batch_size=10)
        data.write_parquet(job.output)

    with pytest.raises(Exception, match="told to fail on 119"):
        run(fails_on(119))
    assert 0 < len(job.written()) < 120
    recorded = json.loads((Path(job.checkpoint) / "_meta/job.json").read_text())["fingerprint"]
    assert recorded["row_hash"] and len(recorded["inputs"]) == 4
    run()
    job.holds_once(range(120))


def test_row_hashes_of_an_input_that_changed_are_refused(job):
    job.put(range(120))
    from checkpoint_store.ray import checkpoint_config

    DataContext.get_current().checkpoint_config = checkpoint_config("row_hash", job.checkpoint)

    def run(step=None):
        data = ray.data.read_parquet(job.input, include_row_hash=True, override_num_blocks=4)
        if step is not None:
            data = data.map_batches(step, batch_format="pyarrow", batch_size=10)
        data.write_parquet(job.output)

    with pytest.raises(Exception, match="told to fail on 119"):
        run(fails_on(119))
    done = job.written()
    (Path(job.input) / "part-0.parquet").rename(Path(job.input) / "part-9.parquet")
    with pytest.raises(ConflictError, match="input file gone"):
        run()
    assert job.written() == done


def test_the_output_is_read_without_the_checkpoint(job):
    job.put(range(30))
    job.configure(delete_checkpoint_on_success=False)
    job.run()
    with checkpointing_off():
        assert ray.data.read_parquet(job.output).count() == 30
    assert DataContext.get_current().checkpoint_config is not None


def test_another_version_of_the_job_is_refused(job):
    job.put(range(100))
    job.configure(job_version="1", delete_checkpoint_on_success=False)
    job.run()
    job.configure(job_version="2")
    with pytest.raises(ConflictError, match='the job\'s version: was "1", is "2"'):
        job.run()


def test_two_outputs_of_one_checkpoint_are_refused(job):
    job.put(range(100))
    job.configure(delete_checkpoint_on_success=False)
    job.run()
    with pytest.raises(ConflictError, match="the output: was"):
        job.read().write_parquet(job.output + "-2")


def test_columns_become_directories(job):
    job.put(range(40), kind=pa.array(["a", "b"] * 20))
    job.configure()
    with pytest.raises(Exception, match="told to fail on 39"):
        job.read().map_batches(fails_on(39), batch_format="pyarrow", batch_size=5).write_parquet(
            job.output, partition_cols=["kind"]
        )
    job.read().write_parquet(job.output, partition_cols=["kind"])
    job.holds_once(range(40))
    assert sorted(path.name for path in Path(job.output).iterdir() if path.is_dir()) == ["kind=a", "kind=b"]
