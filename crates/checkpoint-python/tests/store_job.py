"""A job of its own process, for tests that kill it: squares of numbers, some at a time, over a checkpoint.

Arguments: checkpoint, output, options as JSON, the first number that there is not, and a step to stop at, or "none".
It writes a line for each step that it has done.
"""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from checkpoint_store import CheckpointStore

ROWS = 7


def main(checkpoint, output, options, end, stop_at):
    def step(name):
        print(name, flush=True)
        if name == stop_at:
            sys.stdin.readline()

    store = CheckpointStore(checkpoint, json.loads(options), output=output)
    with store.begin(id_column="id", id_type=pa.int64()) as attempt:
        if attempt.already_complete:
            return
        step("begun")
        left = attempt.filter(pa.table({"id": range(int(end))}), "id")
        for start in range(0, left.num_rows, ROWS):
            ids = left["id"].slice(start, ROWS)
            sink = pa.BufferOutputStream()
            pq.write_table(pa.table({"id": ids, "square": [n * n for n in ids.to_pylist()]}), sink)
            task = attempt.prepare(ids, {"parquet": sink.getvalue()})
            step(f"prepared {start // ROWS}")
            task.write_files()
            step(f"written {start // ROWS}")
            task.commit()
            step(f"committed {start // ROWS}")
        attempt.finish(keep=True)
        step("finished")


if __name__ == "__main__":
    main(*sys.argv[1:])
