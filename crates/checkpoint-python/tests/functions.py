"""Functions for pipelines that run in processes of their own, which must find them by name."""

import os
import signal
import time

import pyarrow as pa


def doubled(batch):
    """A column more."""
    return batch.append_column("double", pa.array([n * 2 for n in batch["id"].to_pylist()]))


def process_id(batch):
    """Who did it."""
    return {"id": batch["id"], "pid": [os.getpid()] * len(batch["id"])}


def refuses_13(batch):
    """Fails on one row, as a missing file would."""
    if 13 in batch["id"].to_pylist():
        raise FileNotFoundError(f"no sample {13}")
    return batch


def dies_on_13(batch):
    """Takes its process with it."""
    if 13 in batch["id"].to_pylist():
        os.kill(os.getpid(), signal.SIGKILL)
    return batch


def fails_or_sleeps(batch):
    """Fails where the first row is, and is busy for ever elsewhere."""
    if 0 in batch["id"].to_pylist():
        raise ValueError("the first fails")
    while True:
        time.sleep(1)


class Unpicklable(Exception):
    """An exception that does not come back from its pickle."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def raises_unpicklable(batch):
    """Fails with one."""
    raise Unpicklable("no", "way")


class Counting:
    """An object for each worker, which counts its batches."""

    def __init__(self):
        self.batches = 0

    def __call__(self, batch, idempotency_key):
        self.batches += 1
        return {
            "id": batch["id"],
            "batch": [self.batches] * len(batch["id"]),
            "key": [idempotency_key] * len(batch["id"]),
        }
