"""Batches on their way into a function and out of it: Arrow there, what people write functions for here."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["FORMATS", "given", "taken"]

FORMATS = ("arrow", "pandas", "polars", "numpy")


def given(batch: Any, batch_format: str) -> Any:
    """A batch in the format that a function takes."""
    if batch_format == "polars":
        return _polars().DataFrame(batch)
    arrow = _pyarrow(batch_format).record_batch(batch)
    if batch_format == "arrow":
        return arrow
    if batch_format == "numpy":
        return {
            name: column.to_numpy(zero_copy_only=False) for name, column in zip(arrow.schema.names, arrow, strict=True)
        }
    try:
        return arrow.to_pandas()
    except ImportError as missing:
        raise ImportError("batches for pandas need it: pip install pandas") from missing


def taken(answer: Any, schema: Any) -> Iterator[Any]:
    """What a function answered, as objects with the Arrow PyCapsule interface.

    Args:
        answer: The answer.
        schema: The schema that data frames of pandas and dictionaries are to have, if that is known.
    """
    pandas = sys.modules.get("pandas")
    if answer is None:
        return
    if pandas is not None and isinstance(answer, pandas.DataFrame):
        pyarrow = _pyarrow("pandas")
        _same_columns(answer.columns, schema)
        table = pyarrow.Table.from_pandas(answer, schema=schema, preserve_index=False)
        yield table.replace_schema_metadata(None if schema is None else schema.metadata)
    elif isinstance(answer, dict):
        yield _table(answer, schema)
    elif hasattr(answer, "__arrow_c_array__") or hasattr(answer, "__arrow_c_stream__"):
        yield answer
    elif isinstance(answer, list | tuple | Iterator):
        for each in answer:
            yield from taken(each, schema)
    else:
        raise TypeError(
            f"a function answers a table, a data frame, a dictionary of columns, several of these, or None, and not: "
            f"{type(answer).__name__}"
        )


def _table(columns: dict[str, Any], schema: Any) -> Any:
    pyarrow = _pyarrow("numpy")
    _same_columns(columns, schema)
    arrays = {name: _column(pyarrow, values) for name, values in columns.items()}
    return pyarrow.table(arrays) if schema is None else pyarrow.table(arrays).select(schema.names).cast(schema)


def _same_columns(columns: Iterable[str], schema: Any) -> None:
    """Refuses an answer of which a column would be dropped, or invented."""
    if schema is not None and set(columns) != set(schema.names):
        raise ValueError(f"the columns are not those of the output: {list(columns)} and not {schema.names}")


def _column(pyarrow: Any, values: Any) -> Any:
    if getattr(values, "ndim", 1) < 2 or not hasattr(values, "reshape"):
        return values if hasattr(values, "__arrow_c_array__") else pyarrow.array(values)
    # Rows of vectors, such as embeddings, or of tensors, flattened.
    flat = values.reshape(len(values), -1)
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat.reshape(-1)), flat.shape[1])


def _pyarrow(batch_format: str) -> Any:
    try:
        import pyarrow
    except ImportError as missing:
        what = f"batches for {batch_format} need pyarrow: pip install 'checkpoint-store[arrow]'"
        raise ImportError(what) from missing
    return pyarrow


def _polars() -> Any:
    try:
        import polars
    except ImportError as missing:
        raise ImportError("batches for polars need it: pip install polars") from missing
    return polars
