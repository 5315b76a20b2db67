"""CheckpointStore and its attempts, in one process and on memory and POSIX."""

import dataclasses
import itertools
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkpoint_store import CheckpointStore, IdSet, errors, reports


class Place:
    """A job's checkpoint and output on one kind of store."""

    def __init__(self, root, options=None):
        self.checkpoint, self.output, self.options = f"{root}/checkpoint", f"{root}/output", options

    def store(self, **given):
        return CheckpointStore(self.checkpoint, self.options, output=self.output, **given)


@pytest.fixture(params=["posix", "memory"])
def place(request, tmp_path):
    return Place(tmp_path if request.param == "posix" else f"memory://{uuid.uuid4()}")


def parquet(ids):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ids, "square": [n * n for n in ids]}), sink)
    return sink.getvalue()


def begin(store, **given):
    return store.begin(id_column="id", id_type=pa.int64(), **given)


def commit(attempt, ids):
    return attempt.write(pa.array(ids), {"parquet": parquet(ids)})


def read_output(path):
    files = sorted(name for name in os.listdir(path) if name.endswith(".parquet"))
    return sorted(row for name in files for row in pq.read_table(os.path.join(path, name))["id"].to_pylist())


def test_a_job_that_fails_is_resumed_and_finished(place, tmp_path):
    store = place.store()
    pq.write_table(pa.table({"id": range(6)}), tmp_path / "input.parquet")
    with pytest.raises(errors.NoCheckpointError):
        store.status()
    # A job is known to be complete where it is known what it reads.
    inputs = [tmp_path / "input.parquet"]
    with pytest.raises(ZeroDivisionError), begin(store, inputs=inputs) as attempt:
        assert (attempt.number, attempt.already_complete, len(attempt.ids)) == (1, False, 0)
        task = commit(attempt, [1, 2, 3])
        assert task.name.endswith("-1-000001")
        1 / 0  # noqa: B018
    status = store.status()
    assert (status.committed_rows, status.committed_tasks, status.last_attempt.state) == (3, 1, "failed")
    assert (status.id_column, status.id_type) == ("id", "Int64")
    assert pa.table(store.committed_ids()).to_pydict() == {"id": [1, 2, 3]}
    assert store.id_set().contains(pa.array([3, 4])).to_pylist() == [True, False]
    with store.begin() as attempt:
        assert attempt.number == 2
        rest = attempt.filter(pa.table({"id": range(6)}), "id")
        assert rest["id"].to_pylist() == [0, 4, 5]
        commit(attempt, rest["id"].to_pylist())
        attempt.check()
        attempt.finish(keep=True)
    report = store.verify()
    assert report.ok and (report.committed_ids, report.output_rows) == (6, 6)
    assert store.compact().records_after == 1
    with store.begin() as attempt:
        assert len(attempt.ids) == 6
        attempt.finish()
    with begin(store, inputs=inputs) as attempt:
        assert attempt.already_complete and attempt.number == 0
        with pytest.raises(RuntimeError):
            attempt.filter(pa.table({"id": [1]}), "id")
        attempt.finish()
    with pytest.raises(errors.NoCheckpointError):
        store.id_set()


def test_reports_have_the_fields_of_the_program(place):
    store = place.store()
    with begin(store) as attempt:
        commit(attempt, [1])
        attempt.stop()
    native = store._native
    of_native = {
        reports.Status: native.status(),
        reports.VerifyReport: native.verify(place.output),
        reports.RecoverReport: native.recover(place.output, True, False),
        reports.CompactReport: native.compact(),
    }
    for kind, text in of_native.items():
        assert [field.name for field in dataclasses.fields(kind)] == list(json.loads(text))
    assert [f.name for f in dataclasses.fields(reports.LastAttempt)] == list(
        json.loads(of_native[reports.Status])["last_attempt"]
    )


def test_the_three_steps_apart(place, tmp_path):
    store = place.store()
    with begin(store) as attempt:
        local = tmp_path / "big.parquet"
        local.write_bytes(parquet([1, 2]))
        task = attempt.prepare(pa.chunked_array([[1], [2]]), [("parquet", local), ("jsonl", b'{"id": 2}\n', 1)])
        assert task.unwritten == [f"{task.name}-0.parquet", f"{task.name}-1.jsonl"]
        with pytest.raises(RuntimeError):
            task.commit()
        assert store.status().pending_rows == 2
        task.write_files()
        task.abort()
        assert (store.status().pending_rows, store.status().committed_rows) == (0, 0)
        with pytest.raises(RuntimeError):
            task.commit()
        again = commit(attempt, [1, 2])
        with pytest.raises(RuntimeError):
            again.abort()
        nothing = attempt.prepare(pa.array([3]))
        nothing.commit()
        attempt.stop()
    report = store.verify()
    assert report.committed_ids == 3 and report.orphan_files == 0 and not report.lost_tasks
    with pytest.raises(ValueError):
        begin(store).prepare(pa.array([7]), [("a", b""), ("b", b"")])


def test_an_aborted_task_is_never_rolled_forward_and_one_with_its_data_is(place):
    store = place.store()
    with begin(store) as attempt:
        task = attempt.prepare(pa.array([1]), {"parquet": parquet([1])})
        task.write_files()
        task.abort()
        whole = attempt.prepare(pa.array([2]), {"parquet": parquet([2])})
        whole.write_files()
        attempt.prepare(pa.array([3]), {"parquet": parquet([3])})
        attempt.stop()
    assert store.recover(dry_run=True).rolled_forward == 1
    with store.begin() as attempt:
        assert (attempt.rolled_forward_tasks, attempt.voided_tasks) == (1, 1)
        assert attempt.ids.contains(pa.array([1, 2, 3])).to_pylist() == [False, True, False]
        attempt.stop()


def test_ids_that_break_the_rules_are_refused_before_anything_is_written(place):
    store = place.store()
    with begin(store) as attempt:
        commit(attempt, [1])
        for ids in ([1, 1], [None], ["1"]):
            with pytest.raises(errors.BadDataError):
                attempt.write(pa.array(ids), {})
        with pytest.raises(errors.BadDataError):
            attempt.write(pa.array([5]), {"parquet": b"no parquet"})
        with pytest.raises(ValueError):
            attempt.write(pa.array([], pa.int64()), {})
        attempt.stop()
    with store.begin() as attempt:
        with pytest.raises(errors.BadDataError):
            commit(attempt, [1])
        attempt.stop()
    assert store.status().committed_rows == 1 and store.status().pending_tasks == 0


def test_what_was_recorded_must_stay(place):
    store = place.store()
    with pytest.raises(errors.InvalidConfigError):
        store.begin()
    with pytest.raises(errors.InvalidConfigError):
        store.begin(id_column="id")
    with pytest.raises(errors.InvalidConfigError):
        CheckpointStore(place.checkpoint).begin(id_column="id", id_type=pa.int64())
    with pytest.raises(errors.BadDataError):
        store.begin(id_column="id", id_type=pa.float64())
    with store.begin(id_column="id", id_type=pa.array([1, 2]), version="1") as attempt:
        commit(attempt, [1])
        attempt.stop()
    for changed in ({"version": "2"}, {"id_column": "uid"}, {"id_type": pa.string(), "version": "1"}):
        with pytest.raises(errors.ConflictError):
            store.begin(**changed)
    with pytest.raises(errors.ConflictError) as changed:
        store.begin(version="2")
    assert "pass allow_changed_read" in changed.value.hint and "--" not in changed.value.hint
    with store.begin(version="2", allow_changed_read=True) as attempt:
        attempt.stop()
    other = CheckpointStore(place.checkpoint, output=place.output + "2")
    with pytest.raises(errors.ConflictError):
        other.begin(version="2")
    with pytest.raises(errors.ConflictError):
        other.recover()


def test_a_block_must_say_how_it_ends(place):
    store = place.store()
    with pytest.raises(RuntimeError, match=r"finish\(\) or stop\(\)"), begin(store) as attempt:
        commit(attempt, [1])
    assert store.status().last_attempt.state == "failed"
    with pytest.raises(KeyboardInterrupt), store.begin():
        raise KeyboardInterrupt
    assert store.status().last_attempt.state == "interrupted"
    with store.begin() as attempt:
        attempt.stop()
        with pytest.raises(RuntimeError):
            commit(attempt, [2])
        with pytest.raises(RuntimeError):
            attempt.finish()
        with pytest.raises(TypeError):
            pickle.dumps(attempt)


def test_two_owners_in_one_process(place):
    store = place.store()
    with begin(store) as attempt:
        commit(attempt, [1])
        for refused in (store.begin, store.remove, store.compact, store.recover):
            with pytest.raises(errors.ConflictError) as conflict:
                refused()
            assert conflict.value.hint and "hint:" in str(conflict.value)
        assert store.recover(dry_run=True).dry_run
        commit(attempt, [2])
        attempt.stop()
    with store.begin() as attempt:
        assert len(attempt.ids) == 2
        attempt.stop()
    store.remove()
    with pytest.raises(errors.NoCheckpointError):
        store.remove()


def test_tasks_of_many_threads(place):
    store = place.store()
    with begin(store) as attempt:
        numbers = itertools.count()

        def work():
            for _ in range(10):
                start = next(numbers) * 5
                commit(attempt, list(range(start, start + 5)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        attempt.finish(keep=True)
    report = store.verify()
    assert report.ok and report.committed_ids == 200
    ids = pa.table(store.committed_ids())["id"].to_pylist()
    assert sorted(ids) == list(range(200))
    store.compact()
    assert sorted(pa.table(store.committed_ids())["id"].to_pylist()) == list(range(200))
    import polars

    assert sorted(polars.DataFrame(store.committed_ids())["id"]) == list(range(200))


def test_a_store_pickles_by_what_it_was_given(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "from-the-environment")
    store = CheckpointStore("s3://bucket/x", {"s3": {"key": "k", "secret": "given"}}, output="s3://bucket/y")
    dumped = pickle.dumps(store)
    assert b"from-the-environment" not in dumped and "given" not in repr(store)
    assert pickle.loads(dumped)._given == store._given
    with pytest.raises(errors.InvalidConfigError):
        CheckpointStore("s3://bucket/x", {"s3": {"no_such_option": 1}})


def test_a_child_after_a_fork_is_refused_and_the_parent_goes_on(tmp_path):
    store = Place(tmp_path).store()
    with begin(store) as attempt:
        commit(attempt, [1])
        task = attempt.prepare(pa.array([2]), {"parquet": parquet([2])})
        stream = store.committed_ids()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for call in (
                    lambda: commit(attempt, [3]),
                    task.write_files,
                    attempt.finish,
                    attempt.check,
                    attempt.stop,
                ):
                    try:
                        call()
                        os._exit(2)
                    except RuntimeError as refused:
                        assert "fork" in str(refused)
                assert store.status().committed_rows == 1, "a store itself works on"
                try:
                    pa.table(stream)
                    os._exit(3)
                except pa.ArrowInvalid:
                    code = 0
                del attempt, task, stream
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        task.write_files()
        task.commit()
        attempt.finish(keep=True)
    assert store.verify().ok


def status_of(store):
    return store.status().committed_rows


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_store_works_in_other_processes(tmp_path, method):
    store = Place(tmp_path).store()
    with begin(store) as attempt:
        commit(attempt, [1, 2])
        attempt.stop()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(status_of, [store] * 4) == [2] * 4


def test_ctrl_c_ends_a_wait_for_a_lease(tmp_path):
    """A lease whose owner nobody can judge is watched; Ctrl-C ends that."""
    store = Place(tmp_path).store()
    with begin(store) as attempt:
        commit(attempt, [1])
        attempt.stop()
    path = tmp_path / "checkpoint/_meta/attempts/1.json"
    file = json.loads(path.read_text())
    file["state"], file["owner"]["boot_id"] = "running", "another-kernel"
    path.write_text(json.dumps(file))
    code = textwrap.dedent(
        f"""
        from checkpoint_store import CheckpointStore
        store = CheckpointStore({str(tmp_path / "checkpoint")!r}, output={str(tmp_path / "output")!r})
        try:
            print("waiting", flush=True)
            store.begin()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "waiting\n"
    child.send_signal(2)
    assert child.communicate(timeout=20)[0] == "interrupted\n"


def test_row_hashes_need_their_files(tmp_path):
    source = tmp_path / "input.parquet"
    pq.write_table(pa.table({"x": range(10)}), source)
    store = Place(tmp_path).store()
    hashes = pa.array([11, 1 << 63], pa.uint64())
    with store.begin(row_hash=True, inputs=[source]) as attempt:
        attempt.write(hashes, {})
        attempt.stop()
    assert store.status().id_column == "row_hash"
    with store.begin() as attempt:
        assert attempt.ids.is_row_hash and all(attempt.ids.contains(hashes).to_pylist())
        attempt.stop()
    pq.write_table(pa.table({"x": range(11)}), source)
    with pytest.raises(errors.ConflictError):
        store.begin(row_hash=True, inputs=[source])
    with pytest.raises(errors.InvalidConfigError):
        store.begin(row_hash=True, inputs=[tmp_path / "none.parquet"])
    assert isinstance(store.id_set(), IdSet)
