"""Jobs whose input, checkpoint and output are on COS, OSS or TCLake, as their strict mocks have them."""

from __future__ import annotations

import pytest

from small_driver import wait_for  # isort: skip
from small_jobs import Driver, SmallJob  # isort: skip


@pytest.fixture(params=["cos", "oss", "tclake"])
def store(request, monkeypatch):
    """A mock, which this process and the workers of its drivers reach."""
    store = request.getfixturevalue(f"{request.param}_store")
    monkeypatch.setenv("http_proxy", store.proxy)
    return store


@pytest.fixture
def job(store, tmp_path):
    (tmp_path / "drivers").mkdir()
    return SmallJob(f"{store.scheme}://{store.new_root()}/job", store.storage_options, tmp_path / "drivers")


@pytest.fixture
def drive(job, store):
    """Starts drivers, and ends those that are left."""
    started = []

    def start(name, **options):
        started.append(Driver(job, name, variables={"http_proxy": store.proxy}, **options))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


def test_a_job_that_fails_is_resumed(job, drive):
    answer = drive("first", fails_on=199).answer()
    assert answer["error"] and "told to fail on 199" in answer["text"]
    done = job.written()
    assert 0 < len(done) < 200
    assert drive("second").answer()["error"] is None
    job.is_whole()
    assert drive("third").answer()["error"] is None
    job.is_whole()


@pytest.mark.parametrize("store", ["tclake"], indirect=True)
def test_credentials_of_a_volume_that_end_during_the_job_are_asked_for_again(job, drive, store):
    go = job.folder / "go"
    driver = drive("only", held=go)
    wait_for(f"{go}.reached")
    store.requests()
    store.expire()
    go.touch()
    assert driver.answer()["error"] is None
    job.is_whole()
    received = store.requests()
    assert "ExpiredToken" in [request["code"] for request in received]
    headers = [{name.lower(): value for name, value in request["headers"]} for request in received]
    assert "DescribeCredentials" in [one.get("x-tc-action") for one in headers]
