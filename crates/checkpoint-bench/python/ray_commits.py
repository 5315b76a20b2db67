"""Ray Data commits tasks: its own writer, one task after another."""

import side

import pyarrow as pa
import pyarrow.parquet as pq
from ray.data.checkpoint import CheckpointConfig
from ray.data.checkpoint.checkpoint_writer import BatchBasedCheckpointWriter

spec = side.spec()
files, path = side.filesystem(spec["checkpoint"])
_, output = side.filesystem(spec["output"])
config = CheckpointConfig(id_column="id", checkpoint_path=spec["checkpoint"], override_filesystem=files)
writer = BatchBasedCheckpointWriter(config)
count, data = spec["ids_per_task"], b"\7" * spec["data_bytes"]
side.mark("begun")
for task in range(spec["tasks"]):
    ids = pa.array(range(task * count, (task + 1) * count), pa.int64())
    pending = writer.write_pending_checkpoint(ids, f"c0ffee_{task:06}")
    if data:
        with files.open_output_stream(f"{output}/c0ffee_{task:06}-0.bin") as out:
            out.write(data)
    writer.commit_checkpoint(pending)
side.mark("committed")
side.mark("ended")
side.mark("counted", ids=pq.read_table(path, filesystem=files).num_rows)
