"""One checkpoint, begun by one of `ckpt run`, Ray with ours and plain Ray, and finished by another."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from checkpoint_store import build_checkpoint_filesystem
from jobs import fails_on

from states import run_ours, run_plain, wrong  # isort: skip

ROWS = 400


def ckpt(program, job, *options):
    """`ckpt run` over the job."""
    command = [program, "run", "--input", job.input, "--output", job.output, "--checkpoint", job.checkpoint,
               "--id-column", "id", "--rows-per-task", "20", *options]  # fmt: skip
    return subprocess.run(command, check=True, capture_output=True, text=True)


def begin_with_ray(job, run):
    with pytest.raises(Exception, match="told to fail on 399"):
        run(job, fails_on(399))
    assert 0 < len(job.written()) < ROWS


def begin_with_ckpt(program, job, tmp_path):
    """`ckpt run`, killed while its transform waits: some tasks are committed."""
    log = open(tmp_path / "log", "w")
    process = subprocess.Popen(
        [program, "run", "--input", job.input, "--output", job.output, "--checkpoint", job.checkpoint, "--id-column",
         "id", "--rows-per-task", "20", "--batch-size", "20", "--workers", "1", "--exec-format", "jsonl", "--exec",
         "while read -r line; do sleep 0.01; echo \"$line\"; done"],
        stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while len(job.records()) < 5:
        assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.01)
    os.killpg(process.pid, 9)
    process.wait()
    assert 0 < len(job.written()) < ROWS


def test_begun_by_ray_with_ours_and_finished_by_ckpt(job, ckpt_program):
    job.put(range(ROWS))
    begin_with_ray(job, run_ours)
    ckpt(ckpt_program, job)
    assert wrong(job, range(ROWS)) == (0, 0)


def test_begun_by_ckpt_and_finished_by_ray_with_ours(job, ckpt_program, tmp_path):
    job.put(range(ROWS))
    begin_with_ckpt(ckpt_program, job, tmp_path)
    run_ours(job)
    assert wrong(job, range(ROWS)) == (0, 0)


def test_begun_by_plain_ray_and_finished_with_ours(job):
    job.put(range(ROWS))
    begin_with_ray(job, run_plain)
    run_ours(job)
    assert wrong(job, range(ROWS)) == (0, 0)


def test_begun_with_ours_and_finished_by_plain_ray(job):
    job.put(range(ROWS))
    begin_with_ray(job, run_ours)
    run_plain(job)
    assert wrong(job, range(ROWS)) == (0, 0)


@pytest.mark.parametrize("recovered", [True, False])
def test_begun_by_ckpt_and_finished_by_plain_ray(job, ckpt_program, tmp_path, recovered):
    """Plain Ray does not see the pending records of `ckpt run`, nor that their data is there: recovery does."""
    job.put(range(ROWS))
    begin_with_ckpt(ckpt_program, job, tmp_path)
    # The state of a kill between the data of a task and its record: what was committed last is pending again.
    last = job.records()[-1]
    pending = Path(job.checkpoint, "_meta/pending")
    pending.mkdir(parents=True, exist_ok=True)
    Path(job.checkpoint, last).rename(pending / last)
    if recovered:
        subprocess.run([ckpt_program, "recover", job.checkpoint, "--output", job.output], check=True)
    run_plain(job)
    lost, doubled = wrong(job, range(ROWS))
    assert lost == 0
    assert doubled == 0 if recovered else doubled >= 20


def test_begun_by_ray_with_ours_and_finished_by_ckpt_on_s3(job, ckpt_program, s3_store, s3_root):
    job.put(range(ROWS))
    root = f"s3://{s3_root}/interop"
    job.output, job.checkpoint = f"{root}/output", f"{root}/checkpoint"
    options = s3_store.storage_options
    files = build_checkpoint_filesystem(root, options)
    job.configure(storage_options=options)
    with pytest.raises(Exception, match="told to fail on 399"):
        job.read().map_batches(fails_on(399), batch_size=10, batch_format="pyarrow").write_parquet(
            job.output.removeprefix("s3://"), filesystem=files
        )

    def written():
        found = files.get_file_info(fs.FileSelector(f"{s3_root}/interop/output"))
        return [one for info in found if info.extension == "parquet"
                for one in pq.read_table(info.path, filesystem=files)["id"].to_pylist()]  # fmt: skip

    assert 0 < len(written()) < ROWS
    ckpt(ckpt_program, job, "--storage-options", json.dumps(options))
    assert sorted(written()) == list(range(ROWS))
