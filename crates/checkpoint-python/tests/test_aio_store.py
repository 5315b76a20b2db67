"""The checkpoint for asyncio."""

import asyncio
import json
import os
import pickle
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkpoint_store import CheckpointStore, IdSet, errors
from checkpoint_store.aio import AsyncCheckpointStore


class Place:
    """A job's checkpoint and output on one kind of store."""

    def __init__(self, root, options=None):
        self.checkpoint, self.output, self.options = f"{root}/checkpoint", f"{root}/output", options

    def store(self, **given):
        return AsyncCheckpointStore(self.checkpoint, self.options, output=self.output, **given)


@pytest.fixture(params=["posix", "memory", "s3"])
def place(request, tmp_path):
    if request.param == "posix":
        return Place(tmp_path)
    if request.param == "memory":
        return Place(f"memory://{uuid.uuid4()}")
    store = request.getfixturevalue("s3_store")
    return Place(f"s3://{store.new_root()}", store.storage_options)


def parquet(ids):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ids}), sink)
    return sink.getvalue()


async def begin(store, **given):
    return await store.begin(id_column="id", id_type=pa.int64(), **given)


async def commit(attempt, ids):
    return await attempt.write(pa.array(ids), {"parquet": parquet(ids)})


def test_a_job_that_fails_is_resumed_and_finished(place):
    async def work():
        store = place.store()
        with pytest.raises(errors.NoCheckpointError):
            await store.status()
        with pytest.raises(ZeroDivisionError):
            async with await begin(store) as attempt:
                assert (attempt.number, attempt.already_complete, len(attempt.ids)) == (1, False, 0)
                # Any number of tasks at once.
                await asyncio.gather(*(commit(attempt, range(n * 10, n * 10 + 10)) for n in range(20)))
                1 / 0  # noqa: B018
        status = await store.status()
        assert (status.committed_rows, status.committed_tasks, status.last_attempt.state) == (200, 20, "failed")
        stream = await store.committed_ids()
        assert sorted((await asyncio.to_thread(pa.table, stream))["id"].to_pylist()) == list(range(200))
        ids = await store.id_set()
        assert isinstance(ids, IdSet) and ids.contains(pa.array([3, 400])).to_pylist() == [True, False]
        assert (await store.recover(dry_run=True)).dry_run
        async with await store.begin() as attempt:
            rest = attempt.filter(pa.table({"id": range(203)}), "id")["id"].to_pylist()
            assert rest == [200, 201, 202]
            await commit(attempt, rest)
            attempt.check()
            await attempt.finish(keep=True)
        report = await store.verify()
        assert report.ok and (report.committed_ids, report.output_rows) == (203, 203)
        assert (await store.compact()).records_after == 1
        await store.remove()
        with pytest.raises(errors.NoCheckpointError):
            await store.status()

    asyncio.run(work())


def test_the_steps_of_a_task_apart(place):
    async def work():
        store = place.store()
        async with await begin(store) as attempt:
            first = await attempt.prepare(pa.array([1, 2]), {"parquet": parquet([1, 2])})
            assert [name.startswith(first.name) for name in first.unwritten] == [True]
            with pytest.raises(RuntimeError, match="when its data is written"):
                await first.commit()
            await first.write_files()
            assert first.unwritten == []
            await first.commit()
            second = await attempt.prepare(pa.array([3]), {"parquet": parquet([3])})
            await second.write_files()
            await second.abort()
            with pytest.raises(errors.BadDataError):
                await attempt.prepare(pa.array([1, None]), {"parquet": parquet([1])})
            await attempt.stop()
        status = await store.status()
        assert (status.committed_rows, status.pending_tasks, status.last_attempt.state) == (2, 0, "interrupted")

    asyncio.run(work())


def test_a_job_that_is_complete_says_so(tmp_path):
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "input.parquet")

    async def work():
        store = Place(tmp_path).store()
        async with await begin(store, inputs=[tmp_path / "input.parquet"]) as attempt:
            await commit(attempt, [1, 2])
            await attempt.finish()
        async with await begin(store, inputs=[tmp_path / "input.parquet"]) as attempt:
            assert attempt.already_complete and repr(attempt) == "<AsyncAttempt: the job is complete>"
            await attempt.finish()

    asyncio.run(work())


def test_the_end_waits_for_calls_that_are_under_way(place):
    async def work():
        store = place.store()
        async with await begin(store) as attempt:
            task = await attempt.prepare(pa.array([1]), {"parquet": parquet([1])})
            writing = asyncio.ensure_future(task.write_files())
            await asyncio.sleep(0)
            await attempt.stop()
            await writing
            with pytest.raises(RuntimeError, match="has ended"):
                await task.commit()
        assert (await store.recover()).rolled_forward == 1

    asyncio.run(work())


def test_a_block_must_say_how_it_ends(place):
    async def work():
        store = place.store()
        with pytest.raises(RuntimeError, match="finish"):
            async with await begin(store):
                pass
        assert (await store.status()).last_attempt.state == "failed"
        started = asyncio.Event()

        async def job():
            async with await store.begin():
                started.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(job())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await store.status()).last_attempt.state == "interrupted"

    asyncio.run(work())


def test_writes_that_are_cancelled_anywhere_lose_and_double_nothing(place):
    """Each attempt writes what is left, in tasks that are cancelled after some turns of the loop."""

    async def attempt_and_cancel(store, turns):
        async with await begin(store) as attempt:
            left = attempt.filter(pa.table({"id": range(60)}), "id")["id"].to_pylist()
            tasks = [asyncio.ensure_future(commit(attempt, left[at : at + 5])) for at in range(0, len(left), 5)]
            for number, task in enumerate(tasks):
                for _ in range(turns * number):
                    await asyncio.sleep(0.0005)
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            await attempt.stop()
        return sum(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)

    async def work():
        store = place.store()
        cancelled = [await attempt_and_cancel(store, turns) for turns in (0, 1, 2, 3)]
        assert cancelled[0] == 12 and sum(cancelled) > 12
        async with await store.begin() as attempt:
            left = attempt.filter(pa.table({"id": range(60)}), "id")["id"].to_pylist()
            if left:
                await commit(attempt, left)
            await attempt.finish(keep=True)
        report = await store.verify()
        assert report.ok and (report.committed_ids, report.output_rows, report.orphan_files) == (60, 60, 0), report

    asyncio.run(work())


def test_a_wait_for_a_lease_is_cancelled_while_the_loop_turns(tmp_path):
    """A lease whose owner nobody can judge is watched."""
    place = Place(tmp_path)

    async def work():
        store = place.store()
        async with await begin(store) as attempt:
            await commit(attempt, [1])
            await attempt.stop()
        path = tmp_path / "checkpoint/_meta/attempts/1.json"
        file = json.loads(path.read_text())
        file["state"], file["owner"]["boot_id"] = "running", "another-kernel"
        path.write_text(json.dumps(file))
        waiting = asyncio.ensure_future(store.begin())
        for _ in range(10):
            await asyncio.sleep(0.02)
            assert (await store.status()).committed_rows == 1
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not (tmp_path / "checkpoint/_meta/attempts/2.json").exists()

    asyncio.run(work())


def test_a_beginning_that_is_cancelled_leaves_a_checkpoint_that_can_be_begun(tmp_path):
    place = Place(tmp_path)

    async def work():
        store = place.store()
        for turns in (0, 2, 5):
            beginning = asyncio.ensure_future(begin(store))
            for _ in range(turns):
                await asyncio.sleep(0.001)
            beginning.cancel()
            outcome = (await asyncio.gather(beginning, return_exceptions=True))[0]
            if not isinstance(outcome, asyncio.CancelledError):
                await outcome.stop()
        async with await begin(store) as attempt:
            await commit(attempt, [1])
            await attempt.finish(keep=True)
        assert (await store.verify()).ok

    asyncio.run(work())


def test_it_takes_turns_with_the_one_that_is_not_awaited_and_pickles_as_what_it_was_given(tmp_path, monkeypatch):
    place = Place(tmp_path)

    async def work():
        store = pickle.loads(pickle.dumps(place.store()))
        assert repr(store) == f"AsyncCheckpointStore({place.checkpoint!r})" and store.path == place.checkpoint
        async with await begin(store) as attempt:
            await commit(attempt, [1, 2])
            await attempt.stop()

    asyncio.run(work())
    with CheckpointStore(place.checkpoint, output=place.output).begin() as attempt:
        assert attempt.ids.contains(pa.array([2, 3])).to_pylist() == [True, False]
        attempt.finish()
    assert [name for name in os.listdir(place.output) if name.endswith(".parquet")]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    pickled = pickle.dumps(AsyncCheckpointStore("s3://bucket/x", {"s3": {"endpoint_url": "http://given:1"}}))
    assert b"http://given:1" in pickled and b"of-the-environment" not in pickled


def test_it_wants_a_running_loop(tmp_path):
    store = Place(tmp_path).store()
    with pytest.raises(RuntimeError, match="no running event loop"):
        store._store._native.status_async()
