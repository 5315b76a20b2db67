"""Records that are about to be written: their IDs must be IDs, and each there once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkpoint_store.errors import BadDataError
from checkpoint_store.ids import IdSet


def check_record(data: bytes, path: str) -> None:
    """Refuses a record before any of its task's data is written.

    Raises:
        BadDataError: An ID is null, empty, or of a kind that cannot be one; or there twice.
    """
    table = pq.read_table(pa.BufferReader(data))
    (name,) = table.column_names
    column = table.column(name)
    try:
        ids = IdSet.from_ids(column)
    except BadDataError as error:
        raise BadDataError(f"the IDs of a task cannot be recorded: {error} column={name!r} record={path}") from None
    if len(ids) < len(column):
        raise BadDataError(
            f"an ID is in a task more than once: id={_repeated(column)!r} column={name!r} record={path}\nhint: one row "
            "became several, or the input repeats an ID: give each row an ID of its own after the step that makes "
            "several, for example the ID and the position, and begin again with a fresh checkpoint and output"
        )


def _repeated(column: pa.ChunkedArray) -> object:
    counts = pc.value_counts(column)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    return repeated.field("values")[0].as_py() if len(repeated) else None
