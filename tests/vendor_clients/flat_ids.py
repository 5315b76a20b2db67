"""The records of a checkpoint as a plain reader of Parquet sees them: how many IDs, how many different ones, and whether
a merged record is among them."""

import sys
from pathlib import Path

import pyarrow.parquet as pq

records = sorted(Path(sys.argv[1]).glob("*.parquet"))
ids = [row for record in records for row in pq.read_table(record)["id"].to_pylist()]
print(len(ids), len(set(ids)), any("-merged-" in record.name for record in records))
