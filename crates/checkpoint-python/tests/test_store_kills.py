"""Engines in processes of their own: killed, taken over, and finished by `ckpt` or for it."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from checkpoint_store import CheckpointStore, build_checkpoint_filesystem, errors

HERE = Path(__file__).parent
END = 210
KILLS = int(os.environ.get("CKPT_KILLS", "10"))


def start(place, stop_at="none"):
    checkpoint, output, options = place
    arguments = [checkpoint, output, json.dumps(options), str(END), stop_at]
    return subprocess.Popen(
        [sys.executable, HERE / "store_job.py", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def kill(child):
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()


def run_to_its_end(place):
    child = start(place)
    child.communicate(timeout=120)
    assert child.returncode == 0


def store_of(place):
    checkpoint, output, options = place
    return CheckpointStore(checkpoint, options, output=output)


def rows_of(place):
    report = store_of(place).verify()
    assert report.ok, report
    assert (report.committed_ids, report.orphan_files) == (report.output_rows, 0)
    return report.output_rows


@pytest.fixture
def posix(tmp_path):
    return str(tmp_path / "checkpoint"), str(tmp_path / "output"), {}


@pytest.fixture(params=["posix", "s3"])
def place(request):
    """Where a job is: its checkpoint, its output, and how they are reached."""
    if request.param == "posix":
        return request.getfixturevalue("posix")
    store = request.getfixturevalue("s3_store")
    root = f"s3://{store.new_root()}"
    return f"{root}/checkpoint", f"{root}/output", store.storage_options


def numbers_in(place):
    filesystem = build_checkpoint_filesystem(place[1], place[2])
    listing = filesystem.get_file_info(fs.FileSelector(place[1].removeprefix("s3://")))
    files = [found.path for found in listing if found.path.endswith(".parquet")]
    return sorted(n for path in files for n in pq.read_table(path, filesystem=filesystem)["id"].to_pylist())


def test_killed_anywhere_and_run_again_each_row_is_there_once(place):
    seed = random.randrange(1 << 32)
    print(f"seed={seed}")
    dice = random.Random(seed)
    for _ in range(KILLS):
        child = start(place)
        # As many steps as the dice say, and then at once: whatever the child is at by then.
        for _ in range(dice.randrange(2, 15)):
            if not child.stdout.readline():
                break
        kill(child)
    run_to_its_end(place)
    assert rows_of(place) == END and numbers_in(place) == list(range(END))


@pytest.mark.parametrize("step", ["begun", "prepared 3", "written 3", "committed 3", "finished"])
def test_killed_between_two_steps(place, step):
    child = start(place, step)
    while child.stdout.readline().strip() != step:
        pass
    kill(child)
    with store_of(place).begin() as attempt:
        done = {"begun": 0, "prepared 3": 21, "written 3": 28, "committed 3": 28, "finished": END}[step]
        assert len(attempt.ids) == done
        attempt.stop()
    run_to_its_end(place)
    assert rows_of(place) == END and numbers_in(place) == list(range(END))


def test_two_owners_in_two_processes(place):
    child = start(place, "written 2")
    while child.stdout.readline().strip() != "written 2":
        pass
    with pytest.raises(errors.ConflictError):
        store_of(place).begin()
    assert store_of(place).status().committed_rows == 14
    child.communicate("\n", timeout=120)
    assert child.returncode == 0 and rows_of(place) == END


def test_ctrl_c_ends_the_attempt_and_the_next_begins_at_once(place):
    child = start(place, "prepared 2")
    while child.stdout.readline().strip() != "prepared 2":
        pass
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode != 0
    assert store_of(place).status().last_attempt.state == "interrupted"
    run_to_its_end(place)
    assert numbers_in(place) == list(range(END))


def test_stopped_before_its_commit_and_taken_over(posix):
    """In a cluster nobody trusts a process: the lease is watched until it has run out, half a minute."""
    child = start(posix, "written 2")
    while child.stdout.readline().strip() != "written 2":
        pass
    child.send_signal(signal.SIGSTOP)
    checkpoint, output, _ = posix
    with CheckpointStore(checkpoint, output=output, trust_process=False).begin() as attempt:
        assert (attempt.number, attempt.rolled_forward_tasks, len(attempt.ids)) == (2, 1, 21)
        child.send_signal(signal.SIGCONT)
        child.communicate("\n", timeout=60)
        assert child.returncode != 0, "it must not commit any more"
        left = attempt.filter(pa.table({"id": range(END)}), "id")
        sink = pa.BufferOutputStream()
        pq.write_table(left, sink)
        attempt.write(left["id"], {"parquet": sink.getvalue()})
        attempt.finish(keep=True)
    assert rows_of(posix) == END and numbers_in(posix) == list(range(END))


def processes_below(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children] + [below for child in children for below in processes_below(child)]


def test_ctrl_c_ends_the_reading_of_ids_from_a_store_that_does_not_answer():
    from stores import TestStore

    server = TestStore("s3")
    root = f"s3://{server.new_root()}"
    store = CheckpointStore(f"{root}/checkpoint", server.storage_options, output=f"{root}/output")
    with store.begin(id_column="id", id_type=pa.int64()) as attempt:
        for n in range(150):
            attempt.write(pa.array([n]), {})
        attempt.finish(keep=True)
    reader = pa.RecordBatchReader.from_stream(store.committed_ids())
    reader.read_next_batch()
    stopped = processes_below(server._process.pid)
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            try:
                reader.read_all()
            except pa.ArrowInvalid:
                # What pyarrow makes of any error of a stream. Python raises the rest as soon as it runs again.
                threading.Event().wait(60)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        server.stop()


def ckpt(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)


def write_input(tmp_path):
    source = tmp_path / "input.parquet"
    pq.write_table(pa.table({"id": range(END)}), source)
    return source


def test_begun_by_the_program_and_finished_in_python(posix, tmp_path, ckpt_program):
    checkpoint, output, _ = posix
    source = write_input(tmp_path)
    failing = 'while read -r line; do case "$line" in *:150[,}]*) exit 7;; esac; echo "$line"; done'
    options = ["--input", source, "--output", output, "--checkpoint", checkpoint, "--id-column", "id"]
    shape = ["--exec", failing, "--exec-format", "jsonl", "--rows-per-task", "20", "--batch-size", "10"]
    failed = ckpt(ckpt_program, "run", *options, *shape, "--workers", "1")
    assert failed.returncode == 1, failed.stderr
    store = store_of(posix)
    done = store.status().committed_rows
    assert 0 < done < END
    with store.begin(inputs=[source]) as attempt:
        assert len(attempt.ids) == done
        rest = attempt.filter(pq.read_table(source), "id")
        sink = pa.BufferOutputStream()
        pq.write_table(rest, sink)
        attempt.write(rest["id"], {"parquet": sink.getvalue()})
        attempt.finish(keep=True)
    assert rows_of(posix) == END and numbers_in(posix) == list(range(END))
    assert ckpt(ckpt_program, "verify", checkpoint, "--output", output).returncode == 0
    again = ckpt(ckpt_program, "run", *options, "--keep-checkpoint", "--json")
    assert json.loads(again.stdout)["skipped_rows"] == END


def test_begun_in_python_and_finished_by_the_program(posix, tmp_path, ckpt_program):
    checkpoint, output, _ = posix
    source = write_input(tmp_path)
    child = start(posix, "written 5")
    while child.stdout.readline().strip() != "written 5":
        pass
    kill(child)
    squares = 'while read -r line; do echo "$line" | sed \'s/}$/,"square":0}/\'; done'
    finished = ckpt(
        ckpt_program, "run", "--input", source, "--output", output, "--checkpoint", checkpoint, "--id-column", "id",
        "--exec", squares, "--exec-format", "jsonl", "--keep-checkpoint", "--json",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert (report["skipped_rows"], report["processed_rows"], report["rolled_forward_tasks"]) == (42, END - 42, 1)
    assert rows_of(posix) == END and numbers_in(posix) == list(range(END))
    with store_of(posix).begin() as attempt:
        assert len(attempt.ids) == END
        attempt.finish()
    assert ckpt(ckpt_program, "status", checkpoint).returncode == 2
