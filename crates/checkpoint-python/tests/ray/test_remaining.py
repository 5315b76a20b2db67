"""What of an input is still to be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from ray.data import DataContext

from checkpoint_store.errors import InvalidConfigError
from checkpoint_store.ray import checkpoint_config, read_parquet, remaining_inputs
from jobs import fails_on


def names(left):
    return [(Path(file.path).name, file.row_groups, file.rows) for file in left]


def test_without_a_checkpoint_everything_remains(job):
    job.put(range(40))
    left = remaining_inputs(job.input, job.checkpoint)
    assert names(left) == [(f"part-{number}.parquet", (0,), 10) for number in range(4)]


@pytest.mark.parametrize("row_hash", [False, True])
def test_files_and_row_groups_that_are_done_are_left_out(job, row_hash):
    column = "row_hash" if row_hash else "id"
    for number in range(3):
        table = pa.table({"id": range(number * 100, number * 100 + 100)})
        pq.write_table(table, f"{job.input}/part-{number}.parquet", row_group_size=25)
    DataContext.get_current().checkpoint_config = checkpoint_config(
        column, job.checkpoint, delete_checkpoint_on_success=False, allow_changed_read=True
    )
    whole = ray.data.read_parquet(f"{job.input}/part-0.parquet", include_row_hash=row_hash)
    whole.write_parquet(job.output)
    assert names(remaining_inputs(job.input, job.checkpoint)) == [
        ("part-1.parquet", (0, 1, 2, 3), 100),
        ("part-2.parquet", (0, 1, 2, 3), 100),
    ]
    rest = ray.data.read_parquet(job.input, include_row_hash=row_hash)
    with pytest.raises(Exception, match="told to fail on 299"):
        rest.map_batches(fails_on(299), batch_format="pyarrow", batch_size=5).write_parquet(job.output)
    done = set(job.written())
    left = remaining_inputs(job.input, job.checkpoint)
    for file in left:
        number = int(Path(file.path).stem.partition("-")[2])
        for group in range(4):
            rows = set(range(number * 100 + group * 25, number * 100 + group * 25 + 25))
            assert (group in file.row_groups) == (not rows <= done)
    assert any("part-2" in file.path for file in left)
    job_done = ray.data.read_parquet([file.path for file in left], include_row_hash=row_hash)
    job_done.write_parquet(job.output)
    job.holds_once(range(300))
    assert remaining_inputs(job.input, job.checkpoint) == []
    assert remaining_inputs([], job.checkpoint) == []
    with pytest.raises(InvalidConfigError, match="nothing is left to do"):
        read_parquet([])


def test_of_texts_every_file_remains(job):
    job.put([str(one) for one in range(40)])
    job.configure(delete_checkpoint_on_success=False)
    job.run()
    assert len(remaining_inputs(job.input, job.checkpoint)) == 4
