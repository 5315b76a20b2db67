"""A Daft job that copies its rows with a checkpoint: once over what is then done, once more over what half is done of.

Daft's checkpoint works on its Ray runner alone. Its store is its own, so it makes its own records.
"""

import side
from cluster import start

spec = side.spec()
ray = start()

import daft

daft.set_runner_ray()
store = daft.CheckpointStore(spec["checkpoint"])


def copy(source, target):
    config = daft.CheckpointConfig(store=store, on=spec["column"])
    daft.read_parquet(source, checkpoint=config).write_parquet(target)


# What the first query starts is no part of the second.
side.mark("idle")
copy(spec["done"], spec["first_output"])
side.mark("first")
copy(spec["input"], spec["output"])
side.mark("done")
ray.shutdown()
