"""Jobs of Ray whose driver, node or worker is killed, or stopped and continued too late. Nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import OPERATIONS
from processes import Child, Launch, Nodes, raylet_of, wait_until

#: How often jobs are struck.
KILLS = int(os.environ.get("CKPT_KILLS", "3"))
#: A soak has all places and points; else the cases that have shown the most, each with another place or point.
ALL = KILLS >= 50
#: Replays what a run of before has printed.
SEED = int(os.environ.get("CKPT_SEED", random.randrange(1 << 32)))


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """None in this process: all jobs here are others'."""
    yield


@pytest.fixture(scope="module")
def all_nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.stop()


@pytest.fixture
def nodes(all_nodes: Nodes) -> Nodes:
    all_nodes.fill()
    return all_nodes


@pytest.fixture
def on_s3(nodes: Nodes, tmp_path: Path, request: Any) -> Iterator[Launch]:
    store = request.getfixturevalue("s3_store")
    launch = Launch(nodes, tmp_path / "drivers", f"s3://{store.new_root()}/job", store.storage_options)
    yield launch
    launch.stop()


@pytest.fixture
def on_disk(nodes: Nodes, tmp_path: Path) -> Iterator[Launch]:
    launch = Launch(nodes, tmp_path / "drivers", f"file://{tmp_path}/job", {})
    yield launch
    launch.stop()


def test_struck_anywhere(nodes: Nodes, tmp_path: Path, s3_store: Any) -> None:
    """Whatever it does to its rows and whatever files it writes: a soak goes through all operations and formats."""
    print(f"CKPT_SEED={SEED}")
    dice = random.Random(SEED)
    kinds = [(operation, form) for operation in OPERATIONS for form in ("parquet", "json", "csv")]
    dice.shuffle(kinds)
    faults = itertools.cycle(dice.sample(FAULTS, k=len(FAULTS)))
    struck, has_struck = 0, set()
    for number, (operation, form) in enumerate(itertools.cycle(kinds)):
        if struck >= KILLS and number >= (len(kinds) if ALL else 1):
            break
        root = f"s3://{s3_store.new_root()}/job"
        launch = Launch(nodes, tmp_path / f"job-{number}", root, s3_store.storage_options, operation, form)
        launch.keep = dice.random() < 0.5
        print(f"job {number}: {operation}, {form}, {'keeps' if launch.keep else 'deletes'} its checkpoint")
        try:
            for _ in range(min(4, KILLS)):
                fault = next(faults)
                nodes.fill()
                child = strike(launch, fault, dice)
                is_struck = "struck" in child.names() or any(name.startswith("acting-") for name in child.names())
                struck += is_struck
                has_struck |= {fault} if is_struck else set()
                print(f"{struck}: {fault}, struck: {is_struck}, ended with {child.process.returncode}")
                if child.process.returncode == 0:
                    break
                assert is_struck, child.log()
            else:
                launch.run()
            launch.ends_right()
        finally:
            launch.stop()
    assert has_struck == set(FAULTS) or not ALL, "a soak has each of them"


#: What strikes a job. The driver and a node at any moment, a worker at any of its steps.
FAULTS = ["driver", "driver", "node", "removed node", "kill", "memory error", "out of memory"]


def strike(launch: Launch, fault: str, dice: random.Random) -> Child:
    """Runs a driver until a fault has ended it, or it has ended in spite of one."""
    if fault in ("kill", "memory error", "out of memory"):
        point = dice.choice(["batch", "pending", "data", "move", "moved"])
        child = launch.start(point, fault, dice.randrange(1, 10 if point == "batch" else 4))
        if fault == "out of memory":
            end_what_cannot_even_abort(child)
        child.wait()
        return child
    child = launch.start()
    count, pause = dice.randrange(1, 50), dice.random() * 0.5
    wait_until(
        lambda: len(child.events()) >= count or child.process.poll() is not None, f"{count} events: {child.log()}"
    )
    time.sleep(pause)
    if child.process.poll() is not None:
        return child
    child.add("struck")
    if fault == "driver":
        child.kill()
        return child
    node = dice.choice(sorted(launch.nodes.others().items()))[1]
    if fault == "node":
        os.kill(raylet_of(node), signal.SIGKILL)
    launch.nodes.forget(node)
    child.wait()
    return child


def end_what_cannot_even_abort(child: Child) -> None:
    """Kills a worker that has had no memory for a while, as a system does that runs out of it.

    Most end by themselves. In some, what Ray has installed for a process that aborts asks for memory, is refused,
    aborts, and so on without end.
    """
    since = None
    while child.process.poll() is None and (since is None or time.monotonic() - since < 15):
        acting = [event.pid for event in child.events() if event.what.startswith("acting-")]
        since = since or (time.monotonic() if acting else None)
        time.sleep(0.1)
    if child.process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(acting[0], signal.SIGKILL)


@pytest.mark.parametrize(
    ("place", "point"),
    [(place, point) for place in ("disk", "s3") for point in ("batch", "pending", "data", "move", "moved")]
    if ALL
    else [("disk", "data"), ("s3", "moved")],
)
def test_a_worker_that_is_killed(request: Any, place: str, point: str) -> None:
    """Its task is tried again, when the first try may have written all of it."""
    launch: Launch = request.getfixturevalue(f"on_{place}")
    child = launch.start(point, "kill")
    child.done()
    assert "acting-kill" in child.names()
    launch.ends_right()


@pytest.mark.parametrize(
    ("place", "point", "keep"),
    [
        ("disk", "move", True),
        ("disk", "fenced", False),
        ("s3", "data", False),
        ("s3", "move", False),
        ("s3", "fenced", True),
        ("s3", "fenced", False),
    ]
    if ALL
    else [("s3", "move", False)],
)
def test_a_worker_that_is_stopped_and_continued_when_others_have_done_all(
    nodes: Nodes, request: Any, place: str, point: str, keep: bool
) -> None:
    """While it writes its data, before it moves its record, and between the look at the attempts and the move.

    Its node does not answer either, as a machine that is suspended: Ray would end the workers of a driver that is gone.
    """
    launch: Launch = request.getfixturevalue(f"on_{place}")
    launch.keep = keep
    child = launch.start(point, "stop")
    zombie = child.wait_for("acting-stop")
    node = nodes.others()[zombie.node]
    raylet = raylet_of(node)
    os.kill(raylet, signal.SIGSTOP)
    try:
        child.kill()
        launch.run()
        launch.holds_once()
        before = launch.files(launch.output)
        os.kill(zombie.pid, signal.SIGCONT)
        (outcome, *_) = wait_until(lambda: after(child, zombie.pid), "what became of it")
        assert launch.files(launch.output) == before
    finally:
        for pid in (zombie.pid, raylet):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        nodes.forget(node)
    if point != "fenced":
        assert outcome == "refused"
    elif not keep and outcome == "moved":
        # Nothing can keep it from that any more; what it names counts nowhere.
        launch.litter = launch.files(launch.checkpoint)
        assert len(launch.litter) == 1
    launch.ends_right()


def after(child: Any, pid: int) -> list[str]:
    """What a worker did since it was continued."""
    names = [event.what for event in child.events() if event.pid == pid]
    return names[names.index("continued") + 1 :] if "continued" in names else []
