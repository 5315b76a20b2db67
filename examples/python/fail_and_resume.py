"""A job that fails half way, and is finished by the same command.

    python fail_and_resume.py --input docs --output out --checkpoint checkpoint --fail-on doc-00042
    python fail_and_resume.py --input docs --output out --checkpoint checkpoint

The input is Parquet files with the columns ``id`` and ``text``. The first command fails at that row, when others are in
the output already. The second one computes what is left, and so it does after a kill.
"""

import argparse
import lzma

import pyarrow as pa
import ray
from ray.data import DataContext

from checkpoint_store.ray import checkpoint_config, checkpointing_off


def density(batch: pa.Table, fail_on: str | None) -> pa.Table:
    """How little a text repeats itself: boilerplate has a low number."""
    if fail_on in batch["id"].to_pylist():
        raise ValueError(f"told to fail on {fail_on}")
    texts = [text.encode() for text in batch["text"].to_pylist()]
    ratios = [len(lzma.compress(text)) / max(len(text), 1) for text in texts]
    return pa.table({"id": batch["id"], "density": ratios})


def main() -> None:
    """The job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--fail-on", metavar="ID", help="fail on this row")
    args = parser.parse_args()

    context = DataContext.get_current()
    # The only line that a job needs, before its Dataset is made.
    context.checkpoint_config = checkpoint_config("id", args.checkpoint)
    # A failure costs the blocks in work. Where a row takes long, let them be small: Ray's are of up to 128 MiB,
    # and without a batch_size it makes one task of reading, computing and writing them.
    context.target_max_block_size = 256 << 10

    (
        ray.data.read_parquet(args.input)
        .map_batches(density, fn_kwargs={"fail_on": args.fail_on}, batch_size=4, batch_format="pyarrow")
        .write_parquet(args.output)
    )
    with checkpointing_off():
        print(f"{ray.data.read_parquet(args.output).count()} rows in the output")


if __name__ == "__main__":
    main()
