"""Where a plan's rows come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from ray.data._internal.logical.operators import AbstractFrom, Filter, InputData, ListFiles, Read, ReadFiles

from checkpoint_store.arrow import StoreHandler
from checkpoint_store.errors import InvalidConfigError
from checkpoint_store.ray.filesystems import locate, unwrap

if TYPE_CHECKING:
    from checkpoint_store._native import Filesystem, Known
    from checkpoint_store.ray.filesystems import Options

#: Steps that make rows. A read of files has the listing of the files below it.
SOURCES = (ReadFiles, Read, AbstractFrom, InputData)


def leaves_of(op: Any) -> list[Any]:
    """The steps that make rows."""
    if isinstance(op, SOURCES) or not op.input_dependencies:
        return [op]
    return [leaf for one in op.input_dependencies for leaf in leaves_of(one)]


def arrow_schema(leaf: Any) -> pa.Schema | None:
    """The schema of a source, where it is known without reading it."""
    schema = leaf.infer_schema()
    if isinstance(schema, pa.Schema):
        return schema
    if schema is None or not hasattr(schema, "names") or not hasattr(schema, "types"):
        return None
    # Blocks of pandas: the types of Arrow are those of their columns.
    try:
        return pa.schema(
            [(name, pa.from_numpy_dtype(kind)) for name, kind in zip(schema.names, schema.types, strict=True)]
        )
    except (pa.ArrowNotImplementedError, TypeError, ValueError):
        return None


def id_kind(kind: pa.DataType) -> str:
    """What compares with what: integers of all widths, texts and binaries of all layouts, and else the type itself."""
    if pa.types.is_dictionary(kind):
        return id_kind(kind.value_type)
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "binary"
    return "binary" if pa.types.is_fixed_size_binary(kind) and not isinstance(kind, pa.BaseExtensionType) else str(kind)


def names_of(leaf: Any) -> list[str] | None:
    """The columns of a source, where they are known without reading it."""
    schema = leaf.infer_schema()
    return None if schema is None or not hasattr(schema, "names") else list(schema.names)


def schema_of(leaves: list[Any]) -> pa.Schema | None:
    """The schema of the first source; none where that of one is not known."""
    schemas = [arrow_schema(leaf) for leaf in leaves]
    return schemas[0] if schemas and all(schema is not None for schema in schemas) else None


def is_row_hash(leaves: list[Any], id_column: str) -> bool:
    """Whether the IDs are the row hashes that Ray makes while it reads."""
    return id_column == "row_hash" and bool(leaves) and all(_makes_row_hash(leaf) for leaf in leaves)


def _makes_row_hash(leaf: Any) -> bool:
    made = getattr(getattr(leaf, "scanner", None), "synthesized_columns", ())
    return any(column.name == "row_hash" for column in made) or getattr(
        getattr(leaf, "datasource", None), "_include_row_hash", False
    )


def filter_of(op: Any) -> str | None:
    """What readers may leave out, as text: each row that they do not count changes the row hashes after it."""
    found = [] if not isinstance(op, Filter) or op.predicate_expr is None else [op.predicate_expr]
    if isinstance(op, SOURCES):
        read = getattr(op, "get_current_predicate", lambda: None)()
        found.extend([] if read is None else [read])
    texts = [" ".join(str(one).split()) for one in found]
    below = [] if isinstance(op, SOURCES) else [filter_of(one) for one in op.input_dependencies]
    return "; ".join([*texts, *(text for text in below if text is not None)]) or None


def inputs_of(leaves: list[Any], options: Options | None, row_hash: bool) -> list[dict[str, Any]] | None:
    """The files that are read, with sizes and versions; none where nobody can tell.

    Row hashes are made of the path as Ray spells it, so that is what their files are called by.
    """
    files: dict[str, dict[str, Any]] = {}
    for leaf in leaves:
        found = _files_of(leaf, options, row_hash)
        if found is None:
            return None
        files.update((one["path"], one) for one in found)
    return [files[path] for path in sorted(files)]


def _files_of(leaf: Any, options: Options | None, row_hash: bool) -> list[dict[str, Any]] | None:
    listing = leaf.input_dependencies[0] if isinstance(leaf, ReadFiles) else None
    known: list[str] | None = None
    if isinstance(listing, ListFiles):
        paths, filesystem, known = listing.paths, listing.filesystem, listing.file_extensions
    elif hasattr(getattr(leaf, "datasource", None), "_paths"):
        paths, filesystem = leaf.datasource._paths(), getattr(leaf.datasource, "_filesystem", None)
    else:
        return None
    endings = tuple("." + ending for ending in known or ())
    try:
        files = _listed([str(path) for path in paths], filesystem, options, endings, row_hash)
    except InvalidConfigError:
        # Its store cannot be told, and Ray reads it all the same.
        return None
    return [{"path": path, "size": size, "version": _version(at, etag)} for path, (size, at, etag) in files.items()]


def _listed(
    paths: list[str], filesystem: Any, options: Options | None, endings: tuple[str, ...], row_hash: bool
) -> dict[str, Known]:
    """The files at paths and below them, each store asked for all of its paths at once."""
    stores: dict[str, tuple[StoreHandler, list[tuple[str, str]]]] = {}
    for path in paths:
        url, found = locate(path, filesystem, options)
        scheme = url.partition("://")[0]
        if scheme not in stores:
            stores[scheme] = StoreHandler(scheme, found), []
        handler, places = stores[scheme]
        place = handler.normalize_path(unwrap(url))
        places.append((place, unwrap(path).rstrip("/") if row_hash else place))
    files: dict[str, Known] = {}
    for handler, places in stores.values():
        infos = handler.store.info_many([place for place, _ in places])
        for (place, spelled), (_, one) in zip(places, infos, strict=True):
            below = {place: one} if one is not None else _below(handler.store, place, endings)
            files.update((spelled + name.removeprefix(place), file) for name, file in below.items())
    return files


def _below(store: Filesystem, path: str, endings: tuple[str, ...]) -> dict[str, Known]:
    def is_read(name: str) -> bool:
        return not name.startswith((".", "_")) and name.endswith(endings or "")

    listed = store.list(path, True)
    return {name: known for name, known in listed if known is not None and is_read(name.rpartition("/")[2])}


def _version(changed: int | None, etag: str | None) -> str | None:
    """The version of a file as the rest of this project writes it."""
    if etag is not None or changed is None:
        return etag
    return f"{changed // 10**9}.{changed % 10**9:09}"
