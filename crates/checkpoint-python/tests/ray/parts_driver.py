"""A job of Ray Data whose records are read by tasks, after a failure. Arguments: a cluster, a directory."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path

import ray
from ray.data import DataContext

from checkpoint_store.ray import parts
from jobs import Job, fails_on

#: How tasks read a part, and how the driver takes what they answer.
READ, ANSWER = parts._read, parts._answer


def reads(checkpoint: str, part: str, options: str | None) -> bytes:
    """Notes on which machine it is; the first of all is killed, and tried again by Ray."""
    root = Path(checkpoint.partition("://")[2]).parent
    (root / f"node-{ray.get_runtime_context().get_node_id()}").touch()
    try:
        os.close(os.open(root / "killed", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return READ(checkpoint, part, options)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("was killed")


def main(address: str, root: str) -> None:
    """Prints what came of the parts."""
    ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    ray.cloudpickle.register_pickle_by_value(sys.modules["jobs"])
    context = DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_min_block_size, context.target_max_block_size = 1, 512
    answers: list[bool] = []

    def answer(ref: object) -> bytes | None:
        found = ANSWER(ref)
        answers.append(found is not None)
        return found

    parts.AT_LEAST, parts._read, parts._answer = 1, reads, answer
    job = Job(Path(root))
    job.put(range(600), files=6)
    job.configure(delete_checkpoint_on_success=False)
    try:
        job.run(fails_on(599))
    except Exception as error:
        assert "told to fail" in str(error), error
    records = len(job.records())
    job.run()
    job.holds_once(range(600))
    print(json.dumps({"records": records, "answers": answers}))


if __name__ == "__main__":
    main(*sys.argv[1:])
