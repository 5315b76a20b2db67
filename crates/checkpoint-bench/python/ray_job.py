"""A Ray Data job that copies its rows, with a checkpoint or without."""

import side
from cluster import start

spec = side.spec()
ray = start()

from ray.data.checkpoint import CheckpointConfig
from ray.data.context import DataContext

files, path = side.filesystem(spec["input"])
if spec.get("checkpoint"):
    DataContext.get_current().checkpoint_config = CheckpointConfig(
        id_column=spec["column"], checkpoint_path=spec["checkpoint"], delete_checkpoint_on_success=False
    )
side.mark("idle")
rows = ray.data.read_parquet(path, filesystem=files, include_row_hash=spec.get("row_hash", False))
rows.write_parquet(spec["output"])
side.mark("done")
ray.shutdown()
