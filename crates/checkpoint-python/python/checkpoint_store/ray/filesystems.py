"""Where a path of a filesystem is, as a URL and options that the native side opens by itself."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlparse

from pyarrow import fs

from checkpoint_store.arrow import StoreHandler
from checkpoint_store.errors import InvalidConfigError

#: Options by protocol, as fsspec has them.
Options = dict[str, dict[str, Any]]


#: Options of an fsspec object that are not of its store.
_OF_THE_OBJECT = {"scheme", "skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths"}


def is_url(path: str) -> bool:
    """Whether a path has a scheme."""
    return "://" in path


def unwrap(path: str) -> str:
    """A path without its scheme, as Ray gives it to filesystems."""
    from ray.data.datasource.path_util import _unwrap_protocol

    return str(_unwrap_protocol(path))


def locate(path: str, filesystem: Any = None, options: Options | None = None) -> tuple[str, Options | None]:
    """The URL of a path, and the options to open it with.

    Args:
        path: With a scheme, or as the filesystem takes it.
        filesystem: A pyarrow or fsspec filesystem, Ray's wrapper of one, or none for a path of this machine.
        options: Options of the user's own. They win over what the filesystem was made with.

    Raises:
        InvalidConfigError: The filesystem is of a kind whose store cannot be told.
    """
    scheme, found = _store_of(filesystem)
    if is_url(path):
        named = urlparse(path).scheme
        if scheme is not None and scheme != named and {scheme, named} - {"file", "local"}:
            found = None if _family(scheme) != _family(named) else found
        url = path if named not in ("local",) else "file://" + unwrap(path)
    else:
        scheme = scheme or "file"
        url = f"{scheme}://{path}" if scheme != "file" else "file://" + _absolute(path)
    return url, _merged(found, options)


def _absolute(path: str) -> str:
    import os

    return os.path.abspath(path)


def _family(scheme: str) -> str:
    return {"s3a": "s3", "cosn": "cos", "gcs": "gs", "abfs": "az", "abfss": "az", "local": "file"}.get(scheme, scheme)


def _merged(found: Options | None, given: Options | None) -> Options | None:
    if not found or not given:
        return given or found
    return {**found, **given}


def _store_of(filesystem: Any) -> tuple[str | None, Options | None]:
    """The scheme of a filesystem, and the options that would make it again."""
    while hasattr(filesystem, "unwrap"):
        filesystem = filesystem.unwrap()
    if filesystem is None:
        return None, None
    if isinstance(filesystem, fs.LocalFileSystem):
        return "file", None
    if isinstance(filesystem, fs.PyFileSystem):
        handler = filesystem.handler
        if isinstance(handler, StoreHandler):
            return handler.scheme, handler.storage_options
        if isinstance(handler, fs.FSSpecHandler):
            return _fsspec(handler.fs)
    # s3fs has a class of the same name; not every build of pyarrow has this one.
    if isinstance(filesystem, getattr(fs, "S3FileSystem", ())):
        made: Any = filesystem.__reduce__()[1][0]
        return "s3", {"s3": _of_s3(made)}
    if type(filesystem).__module__.partition(".")[0] != "pyarrow" and hasattr(filesystem, "storage_options"):
        return _fsspec(filesystem)
    raise InvalidConfigError(
        f"the store of a filesystem cannot be told: type={type(filesystem).__name__}\nhint: give the path with its "
        "scheme, and the options as storage_options"
    )


def _fsspec(filesystem: Any) -> tuple[str, Options | None]:
    protocol = filesystem.protocol
    protocol = protocol if isinstance(protocol, str) else protocol[0]
    if protocol in ("file", "local"):
        return "file", None
    if protocol == "checkpoint":
        protocol = filesystem.scheme
    # Others work on the job too: what the object keeps for its user is of no use to it.
    options = {name: value for name, value in filesystem.storage_options.items() if name not in _OF_THE_OBJECT}
    return protocol, {protocol: options} if options else None


def _of_s3(made: dict[str, Any]) -> dict[str, Any]:
    """The options of s3fs that are those of pyarrow's filesystem."""
    names = {"access_key": "key", "secret_key": "secret", "session_token": "token", "anonymous": "anon"}
    options = {ours: made[theirs] for theirs, ours in names.items() if made.get(theirs)}
    if made.get("role_arn"):
        raise InvalidConfigError(
            "a filesystem that assumes a role cannot be opened from its settings\nhint: give a profile with role_arn, "
            "or the credentials, as storage_options"
        )
    if made.get("endpoint_override"):
        endpoint = made["endpoint_override"]
        options["endpoint_url"] = endpoint if "://" in endpoint else f"{made.get('scheme') or 'https'}://{endpoint}"
    if made.get("region"):
        options["client_kwargs"] = {"region_name": made["region"]}
    if made.get("force_virtual_addressing"):
        options["config_kwargs"] = {"s3": {"addressing_style": "virtual"}}
    return options
