"""The rows that are left, by a set of IDs that all processes of a machine share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import ray

from checkpoint_store.ids import IdSet

if TYPE_CHECKING:
    import pyarrow as pa

    from checkpoint_store.ray.tally import Tally


class Rows:
    """The rows of a table that are left, by a set of IDs in the object store."""

    _opened: ClassVar[dict[Any, IdSet | None]] = {}

    def __init__(self, ref: Any, id_column: str, tally: Tally | None = None, source: int = 0) -> None:
        self.ref, self.id_column, self.tally, self.source = ref, id_column, tally, source

    def __call__(self, table: pa.Table) -> pa.Table:
        if table.num_rows == 0:
            return table
        ids = self._ids()
        left = table.slice(0, 0) if ids is None else ids.filter(table, self.id_column)
        if self.tally is not None and left.num_rows < table.num_rows:
            self.tally.add(self.source, table[self.id_column], table.num_rows - left.num_rows)
        return left

    def _ids(self) -> IdSet | None:
        """None where all rows are done."""
        opened = Rows._opened
        if self.ref not in opened:
            buffer = ray.get(self.ref)
            # A process serves one set at a time.
            opened.clear()
            opened[self.ref] = None if buffer is None else IdSet.from_buffer(memoryview(buffer))
        return opened[self.ref]
