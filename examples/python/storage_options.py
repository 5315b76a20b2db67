"""A job on COS, OSS or TCLake, with the store's options in a file.

    python storage_options.py --options options.json --input cos://bucket-1250000000/docs \
        --output cos://bucket-1250000000/run-1/output --checkpoint cos://bucket-1250000000/run-1/checkpoint

``options.json`` has the options by protocol, under the names of s3fs, ossfs and tclakefs. Input, output and checkpoint
may be on different stores:

    {"cos": {"secret_id": "AKID...", "secret_key": "...", "region": "ap-guangzhou"},
     "oss": {"key": "LTAI...", "secret": "...", "endpoint": "oss-cn-hangzhou.aliyuncs.com"},
     "tclake": {"sid": "AKID...", "sk": "...", "region": "ap-guangzhou"}}

The input is Parquet files with the columns ``id`` and ``text``.
"""

import argparse
import json
import lzma
from pathlib import Path

import pyarrow as pa
from ray.data import DataContext

from checkpoint_store.ray import DatasetContext, checkpoint_config, read_parquet, write_parquet


def density(batch: pa.Table) -> pa.Table:
    """How little a text repeats itself: boilerplate has a low number."""
    texts = [text.encode() for text in batch["text"].to_pylist()]
    ratios = [len(lzma.compress(text)) / max(len(text), 1) for text in texts]
    return pa.table({"id": batch["id"], "density": ratios})


def main() -> None:
    """The job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--options", required=True, type=Path, metavar="FILE")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--checkpoint", required=True)
    args = parser.parse_args()

    context = DatasetContext.get_current()
    context.storage_options = json.loads(args.options.read_text())
    context.checkpoint_config = checkpoint_config("id", args.checkpoint)
    DataContext.get_current().target_max_block_size = 256 << 10

    docs = read_parquet(args.input)
    write_parquet(docs.map_batches(density, batch_size=4, batch_format="pyarrow"), args.output)


if __name__ == "__main__":
    main()
