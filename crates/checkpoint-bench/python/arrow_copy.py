"""Plain pyarrow reads and writes the same files, a file a thread: no IDs, no commits, no second start."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import side

import pyarrow.parquet as pq

spec = side.spec()
inputs = sorted(Path(spec["input"]).glob("*.parquet"))


def copy(path):
    table = pq.read_table(path)
    pq.write_table(
        table,
        Path(spec["output"]) / path.name,
        compression=spec["codec"],
        compression_level=spec["level"],
    )
    return table.num_rows


side.mark("idle")
with ThreadPoolExecutor(os.cpu_count()) as pool:
    rows = sum(pool.map(copy, inputs))
side.mark("done", rows=rows)
