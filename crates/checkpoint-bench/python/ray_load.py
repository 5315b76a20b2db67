"""Ray Data loads a checkpoint and filters by it: its own manager and its own filter."""

import time

import side
from cluster import start

spec = side.spec()
ray = start(spec["tuned"])

import pyarrow as pa
from ray.data.checkpoint import CheckpointConfig
from ray.data.checkpoint.checkpoint_filter import IdColumnCheckpointManager, NumpyArrayBasedCheckpointFilter
from ray.data.context import DataContext

config = CheckpointConfig(id_column=spec["column"], checkpoint_path=spec["checkpoint"])
context = DataContext.get_current()
if spec["tuned"]:
    # Its newer reader takes twice as long for a thousand records, and for ten thousand opens as many threads in one
    # process and does not get done on a few cores.
    context.use_datasource_v2 = False
side.mark("idle")
manager = IdColumnCheckpointManager(checkpoint_config=config, data_context=context)
ids, size = manager.load_checkpoint()
side.mark("loaded", set_bytes=size)

if spec.get("probes"):
    # What each actor that filters does first.
    checkpoint_filter = NumpyArrayBasedCheckpointFilter(config, ids)
    side.mark("ready", ids=len(checkpoint_filter.checkpointed_ids))
    rows, kept_rows, kept_sum, best = 0, 0, 0, 0.0
    began = time.monotonic()
    with pa.memory_map(spec["probes"]) as source:
        reader = pa.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            block = pa.Table.from_batches([reader.get_batch(index)])
            before = time.process_time()
            rest = checkpoint_filter.filter_rows_for_block(block)
            best = max(best, block.num_rows / (time.process_time() - before))
            rows += block.num_rows
            kept_rows += rest.num_rows
            kept_sum += sum(rest["row"].to_numpy().tolist())
            if time.monotonic() - began > spec["seconds"]:
                break
    side.mark("filtered", rows=rows, kept_rows=kept_rows, kept_sum=kept_sum, filter_rate=best)
ray.shutdown()
