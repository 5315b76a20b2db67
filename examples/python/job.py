"""A job for `ray job submit`, as a managed Ray has it. A folder of its own is its working directory.

    ray job submit --working-dir . -- python job.py

Submit it again, unchanged, after it failed. ``JOB_ROOT`` says where it works: ``oss://bucket/jobs`` for example, with
the store's settings in the environment of the cluster.
"""

import os

import pyarrow as pa
import pyarrow.compute as pc
import ray
from ray.data import DataContext

from checkpoint_store.ray import checkpoint_config, read_parquet, write_parquet

ROOT = os.environ["JOB_ROOT"]
# One snapshot of the input, one output and one checkpoint belong together, from the first run to the last.
INPUT, OUTPUT, CHECKPOINT = f"{ROOT}/snapshots/input-001", f"{ROOT}/run-001/output", f"{ROOT}/run-001/checkpoint"


def clean(batch: pa.Table) -> pa.Table:
    """Texts without what only lays them out."""
    text = pc.replace_substring_regex(batch["text"], r"\s+", " ")
    return pa.table({"id": batch["id"], "text": pc.utf8_trim_whitespace(text)})


def main() -> None:
    """The job."""
    ray.init(address="auto")
    context = DataContext.get_current()
    context.checkpoint_config = checkpoint_config("id", CHECKPOINT, delete_checkpoint_on_success=False)
    context.target_max_block_size = 256 << 10

    docs = read_parquet(INPUT)
    write_parquet(docs.map_batches(clean, batch_size=4, batch_format="pyarrow"), OUTPUT, mode="append")


if __name__ == "__main__":
    main()
