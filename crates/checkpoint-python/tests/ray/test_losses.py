"""States in which plain Ray 2.60 loses or doubles rows, and what becomes of them with ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from ray.data.checkpoint.checkpoint_filter import IdColumnCheckpointManager

from checkpoint_store.errors import BadDataError
from checkpoint_store.ray import run_with_resume
from jobs import fails_on

from states import WRITE, Twins, configure_plain, fixture, run_ours, run_plain, wrong  # isort: skip

# Workers do not find this module, so what it defines goes to them whole.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def twins(tmp_path: Path) -> Twins:
    return Twins(tmp_path)


def test_a1_an_exception_in_a_batch(twins):
    """Right with plain Ray, and with ours."""
    twins.put(range(400))
    for job, run in zip(twins, (run_plain, run_ours)):
        with pytest.raises(Exception, match="told to fail on 399"):
            run(job, fails_on(399))
        assert 0 < len(job.written()) < 400
        run(job)
        assert wrong(job, range(400)) == (0, 0)


def test_a2_a_pending_record_beside_its_committed_one_by_hand(twins):
    twins.put(range(300), files=3)
    twins.task(f"{WRITE}_000000", range(100), "both")
    twins.task(f"{WRITE}_000001", range(100, 200), "both")
    run_plain(twins.plain)
    assert wrong(twins.plain, range(300)) == (200, 0)
    run_ours(twins.ours)
    assert wrong(twins.ours, range(300)) == (0, 0)


def test_a2_a_pending_record_beside_its_committed_one_by_a_crash(twins):
    ids, _ = [fixture(job, "both") for job in twins]
    run_plain(twins.plain)
    assert wrong(twins.plain, ids) == (10, 0)
    run_ours(twins.ours)
    assert wrong(twins.ours, ids) == (0, 0)


@pytest.mark.parametrize(
    ("pending", "committed"),
    [
        (f"{WRITE}_100000", [f"{WRITE}_1000000", f"{WRITE}_1000001", f"{WRITE}_1000002"]),
        ("0123456789abcdef0123456789abcdef_1", [f"0123456789abcdef0123456789abcdef_1{n}" for n in range(3)]),
    ],
    ids=["a million tasks", "names without zeros"],
)
@pytest.mark.parametrize("data", [True, False], ids=["with data", "without data"])
def test_a3_a_name_that_begins_another(twins, pending, committed, data):
    twins.put(range(500), files=5)
    twins.task(pending, range(100), "pending", data=data)
    for number, name in enumerate(committed, 1):
        twins.task(name, range(number * 100, (number + 1) * 100))
    run_plain(twins.plain)
    assert wrong(twins.plain, range(500)) == (300, 0)
    run_ours(twins.ours)
    assert wrong(twins.ours, range(500)) == (0, 0)


def test_a3_by_a_job_of_rays(twins):
    ids, _ = [fixture(job, "prefix") for job in twins]
    run_plain(twins.plain)
    assert wrong(twins.plain, ids) == (12, 0)
    run_ours(twins.ours)
    assert wrong(twins.ours, ids) == (0, 0)


def damage(job, how):
    """Damages the record of the IDs from 100 on."""
    path = Path(job.checkpoint) / f"{WRITE}_000001.parquet"
    whole = path.read_bytes()
    if how == "no bytes":
        path.write_bytes(b"")
    elif how == "no rows":
        pq.write_table(pq.read_table(path).slice(0, 0), path)
    elif how == "another column":
        pq.write_table(pq.read_table(path).rename_columns(["key"]), path)
    elif how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(whole[:60])
    elif how == "garbage":
        path.write_bytes(b"\x07" * len(whole))
    elif how == "flipped":
        path.write_bytes(whole[:4] + bytes(255 - byte for byte in whole[4:40]) + whole[40:])


#: What plain Ray makes of each: rows doubled, or the error that it ends in.
DAMAGES = {
    "no bytes": 100,
    "no rows": 100,
    "another column": 100,
    "gone": 100,
    "cut": "Parquet",
    "garbage": "Parquet",
    "flipped": "thrift|Thrift|Parquet|deserialize|Snappy|snappy|Unexpected",
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a4_a_damaged_record(twins, how, ckpt_program):
    twins.put(range(300), files=3)
    for number in range(2):
        twins.task(f"{WRITE}_00000{number}", range(number * 100, (number + 1) * 100))
    for job in twins:
        damage(job, how)
    if isinstance(DAMAGES[how], int):
        run_plain(twins.plain)
        assert wrong(twins.plain, range(300)) == (0, DAMAGES[how])
    else:
        with pytest.raises(Exception, match=DAMAGES[how]):
            run_plain(twins.plain)

    job = twins.ours
    try:
        run_ours(job)
    except BadDataError as error:
        assert f"{WRITE}_000001" in str(error) and "--repair" in str(error)
        assert wrong(job, range(300)) == (100, 0), "nothing was written"
        subprocess.run([ckpt_program, "recover", job.checkpoint, "--output", job.output, "--repair"], check=True)
        run_ours(job)
    assert wrong(job, range(300)) == (0, 0)


def test_a4_all_records_removed(twins):
    """Ours knows the data by the names of its writes, and makes it anew."""
    twins.put(range(200))
    for job, run in zip(twins, (run_plain, run_ours)):
        with pytest.raises(Exception, match="told to fail on 199"):
            run(job, fails_on(199))
        for record in job.records():
            (Path(job.checkpoint) / record).unlink()
    done = len(twins.plain.written())
    assert done > 0 and twins.ours.written()
    run_plain(twins.plain)
    assert wrong(twins.plain, range(200)) == (0, done)
    run_ours(twins.ours)
    assert wrong(twins.ours, range(200)) == (0, 0)


class Meanwhile(IdColumnCheckpointManager):
    """Another job writes a pending record between Ray's clean-up and its load."""

    def _clean_pending_checkpoints(self, *arguments):
        super()._clean_pending_checkpoints(*arguments)
        table = pa.table({"id": range(100)})
        pq.write_table(table, f"{self.checkpoint_path_unwrapped}/{WRITE}_000009.pending.parquet")


def test_a8_a_pending_record_of_another_job(twins):
    twins.put(range(300), files=3)
    twins.task(f"{WRITE}_000000", range(200, 300))
    configure_plain(twins.plain, checkpoint_manager_cls=Meanwhile)
    twins.plain.run()
    assert wrong(twins.plain, range(300)) == (100, 0)

    job = twins.ours
    checkpoint = job.checkpoint

    def step(table):
        other = pa.table({"id": range(100)})
        pq.write_table(other, f"{checkpoint}/{WRITE}_000009.pending.parquet")
        return table

    run_ours(job, step)
    assert wrong(job, range(300)) == (0, 0)


def test_a_job_that_is_tried_again_in_its_process(twins):
    """`try: run() except: run()`, with the same configuration."""
    twins.ours.put(range(200))
    twins.ours.configure()
    steps = [fails_on(150), fails_on(199), None]
    run_with_resume(lambda: twins.ours.run(steps.pop(0)), backoff=0.01)
    assert wrong(twins.ours, range(200)) == (0, 0)
