"""A job of Ray Data whose input is done for the most part: with this package, with Ray's own checkpoint, with none."""

import side
from cluster import start

spec = side.spec()
ray = start()

from ray.data.context import DataContext

context = DataContext.get_current()
if spec["side"] == "Ray Data":
    from ray.data.checkpoint import CheckpointConfig

    # Its newer reader takes twice as long for a thousand records.
    context.use_datasource_v2 = False
    context.checkpoint_config = CheckpointConfig("id", spec["checkpoint"], delete_checkpoint_on_success=False)
if spec["side"] == "ours":
    from checkpoint_store.ray import checkpoint_config

    context.checkpoint_config = checkpoint_config("id", spec["checkpoint"], delete_checkpoint_on_success=False)
side.mark("idle")
ray.data.read_parquet(spec["input"]).write_parquet(spec["output"])
side.mark("done")
ray.shutdown()
