"""A job on S3, or on MinIO and its like. Everything about the store is in the environment of all machines.

    export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...
    export AWS_ENDPOINT_URL_S3=http://minio:9000        # not for AWS itself
    python s3_by_environment.py --input s3://bucket/docs --output s3://bucket/run-1/output \
        --checkpoint s3://bucket/run-1/checkpoint

The input is Parquet files with the columns ``id`` and ``text``. All that botocore looks at is looked at here: profiles,
instance roles, ``AWS_SESSION_TOKEN``. See docs/configuration.md.
"""

import argparse
import lzma

import pyarrow as pa
from ray.data import DataContext

from checkpoint_store.ray import checkpoint_config, read_parquet, write_parquet


def density(batch: pa.Table) -> pa.Table:
    """How little a text repeats itself: boilerplate has a low number."""
    texts = [text.encode() for text in batch["text"].to_pylist()]
    ratios = [len(lzma.compress(text)) / max(len(text), 1) for text in texts]
    return pa.table({"id": batch["id"], "density": ratios})


def main() -> None:
    """The job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--checkpoint", required=True)
    args = parser.parse_args()

    context = DataContext.get_current()
    context.checkpoint_config = checkpoint_config("id", args.checkpoint)
    context.target_max_block_size = 256 << 10

    docs = read_parquet(args.input)
    write_parquet(docs.map_batches(density, batch_size=4, batch_format="pyarrow"), args.output)


if __name__ == "__main__":
    main()
