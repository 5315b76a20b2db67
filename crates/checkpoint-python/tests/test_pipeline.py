"""Pipelines of Python functions on one machine."""

import dataclasses
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import functions
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkpoint_store import CheckpointStore, Pipeline, errors, reports

HERE = Path(__file__).parent
END = 1_000


@pytest.fixture
def job(tmp_path):
    """A directory with an input of two files."""
    (tmp_path / "input").mkdir()
    for part, start in enumerate((0, END // 2)):
        ids = range(start, start + END // 2)
        pq.write_table(pa.table({"id": ids, "text": [f"t{n}" for n in ids]}), tmp_path / f"input/{part}.parquet")
    return tmp_path


def pipeline(job, **given):
    settings = {"id_column": "id", "rows_per_task": 100, "keep_checkpoint": True, **given}
    return Pipeline(input=job / "input", output=job / "output", checkpoint=job / "checkpoint", **settings)


def output(job):
    files = sorted((job / "output").glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]).sort_by("id")


def test_a_job_runs_and_is_complete(job):
    copying = pipeline(job, keep_checkpoint=False)
    assert copying.plan().remaining_rows == END
    report = copying.run(progress="none")
    assert (report.processed_rows, report.written_rows, report.already_complete) == (END, END, False)
    assert output(job)["text"].to_pylist() == [f"t{n}" for n in range(END)]
    assert copying.run(progress="none").already_complete and copying.plan().already_complete


def test_reports_have_the_fields_of_the_program(job):
    native = pipeline(job)
    from checkpoint_store import _native

    planned = json.loads(_native.Pipeline(native._settings).plan())
    ran = json.loads(_native.Pipeline(native._settings).run())
    assert [field.name for field in dataclasses.fields(reports.PlanReport)] == list(planned)
    assert [field.name for field in dataclasses.fields(reports.RunReport)] == list(ran)


def squares(batch_format):
    def arrow(batch):
        assert isinstance(batch, pa.RecordBatch)
        return batch.append_column("square", pa.array([n * n for n in batch["id"].to_pylist()]))

    def pandas(frame):
        return frame[frame["id"] >= 0].assign(square=frame["id"] ** 2)

    def polars(frame):
        return frame.with_columns(square=frame["id"] ** 2)

    def numpy(columns):
        return {**columns, "square": columns["id"] ** 2}

    return locals()[batch_format]


@pytest.mark.parametrize("batch_format", ["arrow", "pandas", "polars", "numpy"])
def test_every_format_of_batches(job, batch_format):
    mapped = pipeline(job).map_batches(squares(batch_format), batch_format=batch_format, batch_size=64, workers=2)
    assert mapped.run(progress="none").processed_rows == END
    rows = output(job)
    assert rows["id"].to_pylist() == list(range(END)) and rows["text"][7].as_py() == "t7"
    assert rows["square"].to_pylist() == [n * n for n in range(END)]


def test_any_number_of_rows_and_pieces(job):
    def pieces(batch):
        yield None
        yield batch.slice(0, 1)
        yield pa.table(batch.slice(1, 2))
        yield [batch.slice(1, 1)]

    report = pipeline(job).map_batches(pieces, batch_size=100, workers=1).run(progress="none")
    assert report.processed_rows == END and report.written_rows == END // 100 * 4
    assert CheckpointStore(job / "checkpoint").status().committed_rows == END


def test_vectors_of_numpy_become_lists_of_one_length(job):
    import numpy

    def embed(columns):
        return {"id": columns["id"], "vector": numpy.stack([columns["id"], columns["id"]], axis=1).astype("float32")}

    pipeline(job).map_batches(embed, batch_format="numpy").run(progress="none")
    rows = output(job)
    assert rows.schema.field("vector").type == pa.list_(pa.float32(), 2) and rows["vector"][3].as_py() == [3.0, 3.0]


def test_types_are_those_of_the_schema_or_of_what_is_there(job):
    def sparse(frame):
        frame["note"] = [None if n < 990 else "late" for n in frame["id"]]
        return frame

    schema = pa.schema({"id": pa.int64(), "text": pa.string(), "note": pa.string()})
    mapped = pipeline(job).map_batches(sparse, batch_format="pandas", batch_size=50, workers=1, schema=schema)
    mapped.run(progress="none")
    assert output(job).schema.remove_metadata() == schema

    def other(frame):
        return frame.rename(columns={"text": "label"})

    mapped = pipeline(job, allow_changed_read=True).map_batches(other, batch_format="pandas", schema=schema)
    (job / "input/2.parquet").write_bytes((job / "input/0.parquet").read_bytes())
    pq.write_table(pa.table({"id": [END], "text": ["t"]}), job / "input/2.parquet")
    with pytest.raises(errors.TransformError, match="columns"):
        mapped.run(progress="none")


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_a_class_is_an_object_for_each_worker_and_is_given_the_key(job, processes):
    mapped = pipeline(job).map_batches(functions.Counting, batch_size=50, workers=1, processes=processes)
    mapped.run(progress="none")
    rows = output(job)
    assert set(rows["batch"].to_pylist()) == set(range(1, 21)) and len(set(rows["key"].to_pylist())) == 20


def test_work_is_done_in_other_processes(job):
    mapped = pipeline(job).map_batches(functions.process_id, batch_size=20, workers=2, processes=True)
    mapped.run(progress="none")
    assert output(job)["id"].to_pylist() == list(range(END))
    pids = set(output(job)["pid"].to_pylist())
    assert os.getpid() not in pids and 1 <= len(pids) <= 2


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_a_batch_that_fails_names_its_rows_and_is_resumed(job, processes):
    mapped = pipeline(job, rows_per_task=10).map_batches(
        functions.refuses_13, batch_size=10, workers=1, processes=processes
    )
    with pytest.raises(errors.TransformError) as failed:
        mapped.run(progress="none")
    assert "ids=10, 11, 12, 13" in str(failed.value) and "no sample 13" in str(failed.value)
    cause = failed.value.__cause__
    assert isinstance(cause, FileNotFoundError) and not failed.value.is_retryable
    if processes:
        assert "refuses_13" in cause.__notes__[0], "the traceback comes along"
    done = CheckpointStore(job / "checkpoint").status().committed_rows
    assert done == 10
    report = pipeline(job).map_batches(lambda batch: batch).run(progress="none")
    assert report.skipped_rows == done and output(job)["id"].to_pylist() == list(range(END))


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_rows_that_fail_are_set_aside(job, processes):
    function = functions.dies_on_13 if processes else functions.refuses_13
    mapped = pipeline(job, max_failed_rows=1).map_batches(function, batch_size=16, workers=2, processes=processes)
    report = mapped.run(progress="none")
    assert (report.failed_rows, report.written_rows) == (1, END - 1)
    (aside,) = (job / "output/_failed").glob("*.jsonl")
    why = "worker process died: exit code -9" if processes else "no sample 13"
    assert why in aside.read_text()


def test_a_script_without_a_guard_is_told_of_it(job, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"""
from checkpoint_store import Pipeline
def same(batch):
    return batch
at = {str(job)!r}
job = Pipeline(input=at + "/input", output=at + "/output", checkpoint=at + "/checkpoint", id_column="id")
job.map_batches(same, processes=True, workers=1).run(progress="none")
"""
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1 and "TransformError" in run.stderr and "if __name__" in run.stderr


def test_busy_processes_end_with_a_run_that_fails(job):
    mapped = pipeline(job).map_batches(functions.fails_or_sleeps, batch_size=100, workers=2, processes=True)
    with pytest.raises(errors.TransformError, match="the first fails"):
        mapped.run(progress="none")
    while multiprocessing.active_children():
        pass


def test_an_exception_that_does_not_pickle_is_told_in_words(job):
    mapped = pipeline(job).map_batches(functions.raises_unpicklable, workers=1, processes=True)
    with pytest.raises(errors.TransformError, match="Unpicklable: no way") as failed:
        mapped.run(progress="none")
    assert isinstance(failed.value.__cause__, RuntimeError)


def test_what_is_set_wrong_is_told_before_anything_is_done(job):
    for wrong in ({"row_hash": True}, {"id_column": None}):
        with pytest.raises(errors.InvalidConfigError):
            pipeline(job, **wrong)
    for wrong in ({"batch_format": "csv"}, {"workers": 0}, {"batch_size": -1}):
        with pytest.raises(errors.InvalidConfigError):
            pipeline(job).map_batches(functions.doubled, **wrong)
    with pytest.raises(errors.InvalidConfigError):
        pipeline(job).map_batches(functions.doubled).map_batches(functions.doubled)
    for wrong in ({"output_format": "xml"}, {"storage_options": {"s3": {"no_such": 1}}}):
        with pytest.raises(errors.InvalidConfigError):
            pipeline(job, **wrong).run()
    with pytest.raises(errors.InvalidConfigError):
        pipeline(job).run(progress="loud")
    with pytest.raises(errors.InvalidConfigError, match="pickle"):
        pipeline(job).map_batches(lambda batch: batch, processes=True).run()
    with pytest.raises(errors.BadDataError):
        pipeline(job, id_column="uid").run(progress="none")
    with pytest.raises(errors.TransformError, match="int"):
        pipeline(job).map_batches(lambda batch: 7).run(progress="none")


def test_row_hashes_and_other_formats(job):
    jsonl = {"id_column": None, "row_hash": True, "output_format": "jsonl"}
    report = pipeline(job, **jsonl).map_batches(lambda batch: batch.drop_columns(["text"])).run(progress="none")
    lines = [json.loads(line) for file in (job / "output").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert report.written_rows == len(lines) == END and {"id", "row_hash"} == set(lines[0])


def test_progress_is_told_to_a_function_and_in_lines(job, capsys):
    told = []
    pipeline(job).run(progress=told.append)
    assert told[-1]["processed_rows"] == told[-1]["total_rows"] == END and told[-1]["committed_tasks"] >= 1
    pipeline(job).run(progress="auto")
    assert "Traceback" not in capsys.readouterr().err
    from checkpoint_store.progress import _Lines

    lines = _Lines()
    now = {"phase": "running", "skipped_rows": 1_000, "processed_rows": 500, "total_rows": 9_000, "failed_rows": 2}
    lines(now, True)
    assert capsys.readouterr().err == "", "a short run needs no line"
    lines(now, False)
    assert capsys.readouterr().err == "running: 1,500 of 9,000 rows done, 2 failed\n"


def test_a_bar_where_tqdm_is_installed(job, capsys):
    pipeline(job).run(progress="tqdm")
    assert "1.00k/1.00k" in capsys.readouterr().err


def test_the_function_is_called_by_several_threads_at_once(job):
    both = threading.Barrier(2, timeout=60)

    def meet(batch):
        both.wait()
        return batch

    report = pipeline(job, rows_per_task=500).map_batches(meet, batch_size=250, workers=2).run(progress="none")
    assert report.processed_rows == END


def start(job, how="none"):
    return subprocess.Popen(
        [sys.executable, HERE / "pipeline_job.py", job, how],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished_well(job):
    child = start(job)
    said, _ = child.communicate(timeout=120)
    assert child.returncode == 0 and "finished" in said
    assert output(job)["id"].to_pylist() == list(range(END))
    report = CheckpointStore(job / "checkpoint").verify(job / "output")
    assert report.ok and report.committed_ids == report.output_rows == END


def test_killed_anywhere_and_run_again_each_row_is_there_once(job):
    seed = random.randrange(1 << 32)
    print(f"seed={seed}")
    dice = random.Random(seed)
    for _ in range(int(os.environ.get("CKPT_KILLS", "10"))):
        child = start(job)
        for _ in range(dice.randrange(1, 12)):
            if not child.stdout.readline():
                break
        child.kill()
        child.communicate()
    finished_well(job)


def test_killed_with_its_worker_processes_and_run_again(job):
    child = start(job, "processes")
    while not list((job).glob("checkpoint/*.parquet")) and child.poll() is None:
        pass
    child.kill()
    child.communicate()
    finished_well(job)


def test_ctrl_c_commits_what_is_finished(job):
    child = start(job, "wait")
    while child.stdout.readline() != "batch 3\n":
        pass
    child.send_signal(signal.SIGINT)
    _, told = child.communicate("\n", timeout=60)
    assert child.returncode != 0 and "KeyboardInterrupt" in told
    status = CheckpointStore(job / "checkpoint").status()
    assert status.last_attempt.state == "interrupted" and status.pending_tasks == 0
    finished_well(job)
