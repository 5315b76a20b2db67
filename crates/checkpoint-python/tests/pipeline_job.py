"""A pipeline of its own process, for tests that kill it. Arguments: the directory, and what to wait for, or "none".

It writes a line for each batch; "wait" makes it wait for its input in the third.
"""

import itertools
import sys
import time

from functions import doubled

from checkpoint_store import Pipeline


def main(directory, how):
    count = itertools.count()

    def slow(batch):
        n = next(count)
        print(f"batch {n}", flush=True)
        if how == "wait" and n == 3:
            sys.stdin.readline()
        time.sleep(0.003)
        return doubled(batch)

    job = Pipeline(
        input=f"{directory}/input",
        output=f"{directory}/output",
        checkpoint=f"{directory}/checkpoint",
        id_column="id",
        rows_per_task=20,
        keep_checkpoint=True,
    )
    function = doubled if how == "processes" else slow
    report = job.map_batches(function, batch_size=10, workers=2, processes=how == "processes").run(progress="none")
    print("finished", report.processed_rows, report.skipped_rows, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
