"""Options on their way to the stores."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from checkpoint_store.errors import InvalidConfigError


def as_json(storage_options: Mapping[str, Mapping[str, Any]] | None) -> str | None:
    """Options by protocol, as the native part takes them.

    Raises:
        InvalidConfigError: They are no mapping of mappings, or one holds a Python object; it is not shown.
    """
    if not storage_options:
        return None
    if not isinstance(storage_options, Mapping):
        raise InvalidConfigError("storage options are given by protocol: {protocol: {option: value}}")
    for protocol, options in storage_options.items():
        if not isinstance(options, Mapping):
            raise InvalidConfigError(f"storage options are given by protocol: {{{protocol!r}: {{option: value}}}}")
        for name, value in options.items():
            try:
                json.dumps(value, default=os.fspath)
            except (TypeError, ValueError):
                kind = type(value).__name__
                message = f"the option {name!r} of {protocol!r} is no plain value: it is of the type {kind}"
                raise InvalidConfigError(message) from None
    given = {protocol: dict(options) for protocol, options in storage_options.items()}
    return json.dumps(given, default=os.fspath)
