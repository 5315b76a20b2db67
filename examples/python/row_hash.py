"""Rows without a key: Ray Data names each by its file and its place in it.

    python row_hash.py --input users --output out --checkpoint checkpoint

The input is Parquet files with the column ``email``, which need not be unique. Until the job is done the files must
stay as they are: the next run compares, and says so if they do not.
"""

import argparse
import hashlib

import pyarrow as pa
import ray
from ray.data import DataContext

from checkpoint_store.ray import checkpoint_config


def pseudonyms(batch: pa.Table) -> pa.Table:
    """In the place of each address a digest that is slow to guess."""
    names = [
        hashlib.scrypt(email.encode(), salt=b"a salt of your own", n=1 << 11, r=8, p=1, dklen=16).hex()
        for email in batch["email"].to_pylist()
    ]
    # The column `row_hash` stays to the end: the checkpoint is made of it.
    return pa.table({"row_hash": batch["row_hash"], "pseudonym": names})


def main() -> None:
    """The job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--checkpoint", required=True)
    args = parser.parse_args()

    context = DataContext.get_current()
    context.checkpoint_config = checkpoint_config("row_hash", args.checkpoint)
    # A failure costs the blocks that are in work: some dozens of rows each, since each row takes long.
    context.target_max_block_size = 2 << 10

    (
        ray.data.read_parquet(args.input, include_row_hash=True)
        .map_batches(pseudonyms, batch_size=16, batch_format="pyarrow")
        .write_parquet(args.output)
    )


if __name__ == "__main__":
    main()
