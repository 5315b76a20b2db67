"""A driver of a small job in a process of its own, on a cluster that is there; see `small_jobs.py`.

Its only argument is a file of JSON. It says how it went in a line of JSON.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from pyarrow import fs
from ray.data import DataContext
from ray.data.checkpoint import CheckpointConfig
from ray.data.checkpoint.checkpoint_filter import IdColumnCheckpointManager

from checkpoint_store import build_checkpoint_filesystem
from checkpoint_store.errors import CheckpointError
from checkpoint_store.ray import checkpoint_config

#: How long one waits for the other.
PATIENCE = 240


def wait_for(path: str) -> None:
    """Returns once a file is there."""
    end = time.monotonic() + PATIENCE
    while not Path(path).exists():
        assert time.monotonic() < end, f"never came: {path}"
        time.sleep(0.01)


class Together(IdColumnCheckpointManager):
    """Ray's own. What is done is loaded by both drivers before either goes on."""

    mine, other = "", ""

    def load_checkpoint(self, *arguments: Any, **options: Any) -> Any:
        loaded = super().load_checkpoint(*arguments, **options)
        Path(self.mine).touch()
        wait_for(self.other)
        return loaded


def step(table: pa.Table, held: str | None, fails_on: int | None) -> pa.Table:
    """Waits, with the last of the rows, for a file where there is one to wait for; fails on one row."""
    ids = table["id"].to_pylist()
    if held is not None and 199 in ids:
        Path(f"{held}.reached").touch()
        wait_for(held)
    if fails_on in ids:
        raise RuntimeError(f"told to fail on {fails_on}")
    return table


def of_others(url: str, options: dict[str, Any]) -> fs.FileSystem:
    """The filesystem of a place that users of plain Ray have."""
    if url.startswith("file://"):
        return fs.LocalFileSystem()
    import s3fs

    return fs.PyFileSystem(fs.FSSpecHandler(s3fs.S3FileSystem(**options["s3"], use_listings_cache=False)))


def main(job: dict[str, Any]) -> None:
    workers = {"env_vars": job["variables"]}
    ray.init(address=job["address"], runtime_env=workers, log_to_driver=False, logging_level=logging.ERROR)
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_min_block_size, context.target_max_block_size = 1, 512
    url, options = job["url"], job["options"]
    root = url.partition("://")[2]
    if job["plain"]:
        filesystem = of_others(url, options)
        Together.mine, Together.other = job["mine"], job["other"]
        context.checkpoint_config = CheckpointConfig(
            "id", f"{root}/checkpoint", override_filesystem=filesystem, checkpoint_manager_cls=Together,
            delete_checkpoint_on_success=False,
        )  # fmt: skip
    else:
        filesystem = build_checkpoint_filesystem(url, options)
        context.checkpoint_config = checkpoint_config(
            "id", f"{url}/checkpoint", options, delete_checkpoint_on_success=False
        )
    data = ray.data.read_parquet(f"{root}/input", filesystem=filesystem, override_num_blocks=4)
    told = functools.partial(step, held=job["held"], fails_on=job["fails_on"])
    data = data.map_batches(told, batch_size=10, batch_format="pyarrow")
    Path(job["begins"]).touch()
    try:
        data.write_parquet(f"{root}/output", filesystem=filesystem)
    except Exception as error:
        if not isinstance(error, CheckpointError) and "told to fail" not in str(error):
            raise
        print(json.dumps({"error": type(error).__name__, "text": str(error)}), flush=True)
    else:
        print(json.dumps({"error": None, "text": ""}), flush=True)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
