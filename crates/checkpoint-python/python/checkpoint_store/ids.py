"""Sets of IDs that are done, in one flat buffer that every process of a machine can share."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

from checkpoint_store import _native
from checkpoint_store.errors import BadDataError

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

__all__ = ["IdSet"]


class IdSet(_native.IdSet):
    """A set of IDs, made for size: ranges of integers take next to nothing, an ID of any other kind some ten bytes.

    Columns are Arrow data of any library: arrays and chunked arrays of pyarrow, series of polars and pandas, arrays of
    NumPy, and all else with the Arrow PyCapsule interface. IDs are integers, strings, binaries, decimals, dates, times,
    timestamps, booleans, or structs of these. Integers compare by value whatever their width; a string never equals a
    number; floats are refused.

    The set is read-only. It has Python's buffer protocol: ``memoryview(ids)`` is the buffer itself, without a copy,
    and :meth:`from_buffer` uses such a buffer in place. A pickle holds the buffer, out of band with protocol 5.

    ``IdSet()`` is the empty set. Of an :class:`IdSet` it makes another that shares the memory.
    """

    __slots__ = ()

    @classmethod
    def from_ids(cls, *columns: Any, row_hash: bool = False, hash_key: bytes | None = None) -> Self:
        """Builds a set of columns, on all cores. An ID that is there more than once counts once.

        Args:
            columns: Columns of one kind of IDs. Streams are read a chunk at a time.
            row_hash: The IDs are row hashes: those of a whole file then take a few bytes.
            hash_key: The secret of the hashes of IDs that are no integers: 16 bytes. Random where none is given. Sets
                that are to be merged need the same one.

        Raises:
            BadDataError: An ID is null or empty, of a kind that cannot be an ID, or of another kind than the others.
        """
        if hash_key is not None and len(hash_key) != 16:
            raise ValueError(f"a hash key has 16 bytes: bytes={len(hash_key)}")
        return cls(cls.build([_arrow_of(column) for column in columns], row_hash=row_hash, hash_key=hash_key))

    @classmethod
    def from_buffer(cls, buffer: Buffer) -> Self:
        """The set in a buffer, such as ``memoryview(ids)``, ``bytes``, an array of NumPy or a mapped file.

        A read-only buffer is used where it lies, and kept alive; nobody may change what it shows. One that Python may
        write to is copied: ask for ``memoryview(buffer).toreadonly()`` to share it. All of it is read once, for its
        checksum.

        Raises:
            BadDataError: The buffer is damaged, or of a newer version.
        """
        return cls(buffer)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The set in a file of this machine, which is mapped and not read into memory: processes share it.

        Nobody may write to the file meanwhile. To replace or delete it is fine.

        Raises:
            BadDataError: The file is damaged, or of a newer version.
            StorageError: It cannot be opened or mapped.
        """
        return cls(cls.map_file(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the set to a file of this machine, whole or not at all."""
        self.write_file(os.fspath(path))

    def merge(self, *others: _native.IdSet) -> Self:
        """One set of this one and others: the same buffer as one build of all their IDs.

        Raises:
            InvalidConfigError: They were not built alike: with the same ``row_hash`` and the same ``hash_key``.
            BadDataError: Their IDs are of different kinds.
        """
        return type(self)(self.merged(list(others)))

    def contains(self, column: Any) -> Any:
        """For each value of a column whether it is in the set; a null is not.

        Returns:
            A boolean array of the column's library; for others than pyarrow, polars, pandas and NumPy an object with
            ``__arrow_c_array__``.

        Raises:
            BadDataError: The values are of another kind than the IDs.
        """
        return _like(column, self.contains_each(_arrow_of(column)))

    def filter(self, data: Any, id_column: str) -> Any:
        """The rows whose ID is *not* in the set, in their order; rows without ID too.

        Args:
            data: A table, a batch or a stream of batches.
            id_column: The name of the column with the IDs.

        Returns:
            The same kind of object for a ``Table`` or a ``RecordBatch`` of pyarrow and a ``DataFrame`` of polars or
            pandas. For any other batch an object with ``__arrow_c_array__``; for any other table or stream one with
            ``__arrow_c_stream__``, which filters while it is read.

        Raises:
            BadDataError: The column is missing, or its values are of another kind than the IDs.
        """
        if _is(data, "pyarrow", "Table", "RecordBatch"):
            import pyarrow

            rows = self.filter_rows(data, _known(id_column, data.schema.names))
            return pyarrow.table(rows) if isinstance(data, pyarrow.Table) else pyarrow.record_batch(rows)
        if _is(data, "polars", "DataFrame"):
            column = data[_known(id_column, data.columns)]
            return data.filter(_like(column, self.lacks_each(column)))
        if _is(data, "pandas", "DataFrame"):
            left = self.lacks_each(_arrow_of(data[_known(id_column, data.columns)]))
            return data[_like(data.index, left)]
        return self.filter_rows(data, id_column)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        if protocol.__index__() >= 5:
            return type(self).from_buffer, (pickle.PickleBuffer(self),)
        return type(self).from_buffer, (bytes(self),)

    def __repr__(self) -> str:
        kind = self.id_class or "no"
        return f"<{type(self).__name__}: {len(self):,} {kind} IDs in {self.nbytes:,} bytes>"


def _is(value: Any, library: str, *kinds: str) -> bool:
    """Whether a value is of one of these classes of a library, which is not imported for the question."""
    module = sys.modules.get(library)
    return module is not None and isinstance(value, tuple(getattr(module, kind) for kind in kinds))


def _known(name: str, names: Iterable[str]) -> str:
    if list(names).count(name) == 1:
        return name
    raise BadDataError(f"the ID column is missing, or there twice: column={name}")


def _arrow_of(column: Any) -> Any:
    """A column as an object with the Arrow PyCapsule interface."""
    tables = (("pyarrow", ("Table", "RecordBatch")), ("polars", ("DataFrame",)), ("pandas", ("DataFrame",)))
    if any(_is(column, library, *kinds) for library, kinds in tables):
        raise TypeError(f"this is a table, and a column is wanted: type={type(column).__name__}")
    if _is(column, "pandas", "Series", "Index") or _is(column, "numpy", "ndarray"):
        try:
            import pyarrow
        except ImportError as missing:
            raise ImportError(
                "pandas and NumPy columns need pyarrow: pip install 'checkpoint-store[arrow]'"
            ) from missing
        return pyarrow.array(column, from_pandas=True)
    return column


def _like(column: Any, found: Any) -> Any:
    """Booleans as an array of the library that a column is of."""
    if _is(column, "pyarrow", "Array", "ChunkedArray"):
        import pyarrow

        return pyarrow.array(found)
    if _is(column, "polars", "Series"):
        import polars

        return polars.Series(column.name, found)
    if _is(column, "pandas", "Series", "Index") or _is(column, "numpy", "ndarray"):
        import pyarrow

        booleans = pyarrow.array(found).to_numpy(zero_copy_only=False)
        if _is(column, "pandas", "Series"):
            import pandas

            return pandas.Series(booleans, index=column.index, name=column.name)
        return booleans
    return found
