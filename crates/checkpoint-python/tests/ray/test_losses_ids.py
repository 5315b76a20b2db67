"""IDs and steps with which plain Ray 2.60 loses or doubles rows, and what becomes of them with ours."""

from __future__ import annotations

import datetime
import decimal
import os
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from ray.data import DataContext
from ray.data.expressions import col

from checkpoint_store.errors import BadDataError, CheckpointError, ConflictError, InvalidConfigError
from checkpoint_store.ray import checkpoint_config
from jobs import fails_on

from states import WRITE, Twins, configure_plain, run_ours, run_plain, wrong  # isort: skip

# Workers do not find this module, so what it defines goes to them whole.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

BIG = 2**53


@pytest.fixture
def twins(tmp_path: Path) -> Twins:
    return Twins(tmp_path)


def half_done(twins: Twins, done: pa.Array, left: pa.Array, input_type: pa.DataType | None = None) -> list:
    """An input of two halves, the first of which is done."""
    twins.task(f"{WRITE}_000000", done)
    first, second = (half if input_type is None else half.cast(input_type) for half in (done, left))
    for job in twins:
        for number, half in enumerate((first, second)):
            pq.write_table(pa.table({"id": half}), f"{job.input}/part-{number}.parquet")
    return first.to_pylist() + second.to_pylist()


def struct(ids):
    return pa.array([{"file": str(one), "row": one} for one in ids])


#: IDs that are done, IDs that are left, and what plain Ray does: rows lost and doubled, or an error.
KINDS = {
    "int64 with a null": (pa.array([1, 2, None]), pa.array([4, 5]), (0, 1)),
    "int64 beyond 2^53 with a null": (
        pa.array([*range(BIG, BIG + 40, 2), None]),
        pa.array(range(BIG + 1, BIG + 41, 2)),
        "lost",
    ),
    "string with a null": (pa.array(["a", None]), pa.array(["c", "d"]), "TypeError"),
    "decimal with a null": (
        pa.array([decimal.Decimal("1.50"), None]),
        pa.array([decimal.Decimal("2.50")]),
        "TypeError|Error",
    ),
    "NaN": (pa.array([1.0, float("nan")]), pa.array([3.0]), (0, 1)),
    "zeros of both signs": (pa.array([0.0, 1.0]), pa.array([-0.0, 2.0]), "lost"),
    "repeated": (pa.array([1, 2]), pa.array([2, 3]), "lost"),
    "struct": (struct(range(3)), struct(range(3, 6)), "Error"),
    # What plain Ray does with lists depends on the versions of pyarrow and numpy.
    "list": (pa.array([[1], [2]]), pa.array([[3], [4]]), None),
    "string view": (pa.array(["a", "b"], pa.string_view()), pa.array(["c"], pa.string_view()), "Error"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a5_ids_that_are_no_ids(twins, kind):
    done, left, plain = KINDS[kind]
    ids = half_done(twins, done, left)
    if isinstance(plain, tuple):
        run_plain(twins.plain)
        # NaN is not itself: what counts is how many there are.
        assert len(twins.plain.written()) - len(ids) == plain[1] - plain[0]
    elif plain == "lost":
        run_plain(twins.plain)
        assert wrong(twins.plain, ids)[0] > 0
    elif plain is not None:
        with pytest.raises(Exception, match=plain):
            run_plain(twins.plain)

    try:
        run_ours(twins.ours)
    except Exception as error:
        assert isinstance(error, CheckpointError) or "checkpoint_store.errors.BadDataError" in str(error), error
        if kind == "repeated":
            # Told at the end, when all rows were seen; each ID is there once, and the checkpoint stays.
            assert "the input repeats IDs" in str(error) and twins.ours.written() == [1, 2, 3]
            assert twins.ours.records()
        else:
            assert twins.ours.written() == done.to_pylist() or kind == "NaN", "nothing was written"
    else:
        assert kind in ("struct", "string view")
        assert sorted(map(str, twins.ours.written())) == sorted(map(str, ids))


def test_a5_numbers_beyond_2_53(twins):
    """Without a null, plain Ray is right too."""
    ids = half_done(twins, pa.array(range(BIG, BIG + 80, 2)), pa.array(range(BIG + 1, BIG + 81, 2)))
    for job, run in zip(twins, (run_plain, run_ours)):
        run(job)
        assert wrong(job, ids) == (0, 0)


@pytest.mark.parametrize(("done", "now"), [(pa.int64(), pa.string()), (pa.string(), pa.int64())])
def test_a5_a_type_that_changed_its_meaning(twins, done, now):
    first, second = (pa.array(range(*ends)).cast(done) for ends in ((0, 40), (40, 80)))
    half_done(twins, first, second, now)
    with pytest.raises(Exception, match="Error"):
        run_plain(twins.plain)
    with pytest.raises(BadDataError, match="int|string|type"):
        run_ours(twins.ours)
    assert twins.ours.written() == first.to_pylist()


DAY = datetime.date(2026, 1, 1)
#: IDs, and the type that the input has when the job is gone on with.
RIGHT = {
    "int32 and int64": (pa.array(range(8), pa.int32()), pa.int64()),
    "int64 and int32": (pa.array(range(8)), pa.int32()),
    "uint64": (pa.array([2**64 - 1 - one for one in range(8)], pa.uint64()), None),
    "large string": (pa.array([f"é{one}" for one in range(8)]), pa.large_string()),
    "binary": (pa.array([bytes([255, one]) for one in range(8)]), None),
    "fixed binary": (pa.array([bytes([255, one]) for one in range(8)], pa.binary(2)), None),
    "decimal": (pa.array([decimal.Decimal(one) / 4 for one in range(8)], pa.decimal128(10, 2)), None),
    "timestamp": (pa.array([datetime.datetime(2026, 1, 1, one) for one in range(8)], pa.timestamp("us", "UTC")), None),
    "date": (pa.array([DAY + datetime.timedelta(one) for one in range(8)]), None),
    "time": (pa.array([datetime.time(one) for one in range(8)]), None),
    "dictionary": (pa.array([str(one) for one in range(8)]).dictionary_encode(), None),
    "bool": (pa.array([True, False]), None),
    "uuid": (pa.array([bytes([one] * 16) for one in range(8)], pa.uuid()), None),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_a5_ids_that_are_right_with_plain_ray(twins, kind):
    values, now = RIGHT[kind]
    half = len(values) // 2
    ids = half_done(twins, values.slice(0, half), values.slice(half), now)
    run_ours(twins.ours)
    assert wrong(twins.ours, ids) == (0, 0)


def test_a6_an_id_that_a_map_changes(twins):
    twins.put(range(100))

    def change(fails):
        def step(table):
            if fails and 99 in table["id"].to_pylist():
                raise RuntimeError("told to fail")
            return table.set_column(0, "id", pa.array([one + 1000 for one in table["id"].to_pylist()]))

        return step

    for job, run in zip(twins, (run_plain, run_ours)):
        with pytest.raises(Exception, match="told to fail"):
            run(job, change(True))
    run_plain(twins.plain, change(False))
    assert wrong(twins.plain, range(1000, 1100))[1] > 0
    with pytest.raises(BadDataError, match="IDs were committed more than once"):
        run_ours(twins.ours, change(False))


def test_a6_a_limit(twins):
    """Which rows a limit takes of those that are left is up to plain Ray's optimizer."""
    twins.put(range(90), files=3)
    twins.task(f"{WRITE}_000000", range(30))
    twins.ours.configure()
    with pytest.raises(InvalidConfigError, match="a limit"):
        twins.ours.read().limit(30).write_parquet(twins.ours.output)
    assert len(twins.ours.written()) == 30


def test_a6_a_group(twins):
    twins.put([one % 7 for one in range(90)], files=3)
    twins.task(f"{WRITE}_000000", range(3), data=False)
    configure_plain(twins.plain)
    twins.plain.read().groupby("id").count().write_parquet(twins.plain.output)
    assert sorted(twins.plain.written()) != list(range(7))
    twins.ours.configure()
    with pytest.raises(InvalidConfigError, match="an aggregation"):
        twins.ours.read().groupby("id").count().write_parquet(twins.ours.output)
    assert twins.ours.written() == []


@pytest.mark.parametrize(("mode", "lost"), [("overwrite", 100), ("ignore", 200)])
def test_a6_a_mode_that_replaces(twins, mode, lost):
    twins.put(range(300), files=3)
    twins.task(f"{WRITE}_000000", range(100))
    configure_plain(twins.plain)
    twins.plain.read().write_parquet(twins.plain.output, mode=mode)
    assert wrong(twins.plain, range(300)) == (lost, 0)
    twins.ours.configure()
    with pytest.raises(InvalidConfigError, match="a resume adds to what is there"):
        twins.ours.read().write_parquet(twins.ours.output, mode=mode)
    assert sorted(twins.ours.written()) == list(range(100))


class Children:
    """An actor that makes twenty rows of one."""

    def __call__(self, row):
        return [{**row, "child": number} for number in range(20)]


def test_a6_rows_that_become_several_in_actors(twins):
    twins.ours.put(range(40))
    twins.ours.configure()
    data = twins.ours.read().flat_map(Children, concurrency=1)
    with pytest.raises(Exception, match="an ID is in a task more than once"):
        data.write_parquet(twins.ours.output)
    assert twins.ours.written() == []


def test_a6_rows_that_a_step_drops_are_seen_again_and_never_written(twins):
    twins.put(range(100))

    def odd(fails):
        inner = fails_on(99) if fails else lambda table: table
        return lambda table: inner(table).filter(pa.array([one % 2 == 1 for one in table["id"].to_pylist()]))

    for job, run in zip(twins, (run_plain, run_ours)):
        with pytest.raises(Exception, match="told to fail"):
            run(job, odd(True))
        run(job, odd(False))
        assert wrong(job, range(1, 100, 2)) == (0, 0)


# Row hashes: the path of a file and the place of a row in it.


def read_hashes(job, path=None, **options):
    return ray.data.read_parquet(path or job.input, include_row_hash=True, override_num_blocks=4, **options)


def begin(job, ours, read=read_hashes):
    """A job by row hashes that fails on the last row."""
    if ours:
        DataContext.get_current().checkpoint_config = checkpoint_config("row_hash", job.checkpoint)
    else:
        configure_plain(job, "row_hash")
    with pytest.raises(Exception, match="told to fail on 99"):
        read(job).map_batches(fails_on(99), batch_format="pyarrow", batch_size=10).write_parquet(job.output)
    done = job.written()
    assert 0 < len(done) < 100
    return done


def insert(job):
    """Two rows on top of the first file."""
    path = f"{job.input}/part-0.parquet"
    pq.write_table(pa.concat_tables([pa.table({"id": [1000, 1001]}), pq.read_table(path)]), path)


def move(job):
    shutil.move(job.input, job.input + "-2")
    job.input += "-2"


def slashes(job):
    job.input = job.input.replace("/input", "//input")


def relative(job):
    job.input = os.path.relpath(job.input)


def symlink(job):
    Path(job.input + "-2").symlink_to(job.input)
    job.input += "-2"


@pytest.mark.parametrize("change", [insert, move, slashes, relative, symlink])
def test_a7_an_input_that_changed(twins, change):
    twins.put(range(100))
    for job, ours in zip(twins, (False, True)):
        done = begin(job, ours)
        change(job)
        ids = [*range(100), *([1000, 1001] if change is insert else [])]
        if not ours:
            read_hashes(job).write_parquet(job.output)
            lost, doubled = wrong(job, ids)
            assert doubled > 0 and (lost > 0 or change is not insert)
            continue
        try:
            read_hashes(job).write_parquet(job.output)
        except ConflictError as error:
            assert "input" in str(error) and "hint: " in str(error)
            assert job.written() == done, "nothing was written"
        else:
            assert wrong(job, ids) == (0, 0)


def test_a7_a_filter_in_one_run_and_none_in_the_next(twins):
    """Ray counts the rows that its reader leaves out or not, as the plan is."""
    twins.put(range(100))

    def filtered(job):
        return read_hashes(job).filter(expr=col("id") >= 20)

    for job, ours in zip(twins, (False, True)):
        done = begin(job, ours, filtered)
        if not ours:
            read_hashes(job).write_parquet(job.output)
            assert all(count > 0 for count in wrong(job, range(100)))
            continue
        with pytest.raises(ConflictError, match="the reader's filter"):
            read_hashes(job).write_parquet(job.output)
        assert job.written() == done
        filtered(job).write_parquet(job.output)
        assert wrong(job, range(20, 100)) == (0, 0)
