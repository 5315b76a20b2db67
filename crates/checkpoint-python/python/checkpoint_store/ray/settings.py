"""What the user asked for, and the run of it in this process."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from checkpoint_store.ray.filesystems import Options


@dataclass(frozen=True)
class Settings:
    """The arguments of ``checkpoint_config``. Pickles with the options that were given, and no others."""

    id_column: str
    checkpoint_url: str
    #: May hold secrets, so it is never shown.
    storage_options: Options | None = field(repr=False)
    delete_on_success: bool = True
    output: str | None = None
    job_version: str | None = None
    lease_url: str | None = None
    assume_exclusive: bool = False
    append: bool = False
    allow_changed_read: bool = False
    idempotent_sink: bool = False
    #: Names this configuration in its process, and in copies of it anywhere.
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __deepcopy__(self, memo: dict[int, Any]) -> Settings:
        return self
