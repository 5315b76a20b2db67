"""The records of a checkpoint, read by tasks on all machines of the cluster, a part by each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import ray

from checkpoint_store import _native, _options

if TYPE_CHECKING:
    from collections.abc import Callable

    from checkpoint_store.ray.filesystems import Options

logger = logging.getLogger(__name__)

#: Bytes of records from which on it pays to have them read on other machines.
AT_LEAST = 64 << 20
#: Parts for each processor: what one takes longer for, others make up for.
_PARTS = 2
#: Parts at the most.
_MOST = 512
#: For how long no part may come back, in seconds, before those that are left are read by the driver: where others use
#: all processors of the cluster, none of them starts.
_PATIENCE = 120.0


def read_parts(
    checkpoint: str, options: Options | None
) -> tuple[Callable[[list[str]], list[bytes | None]], int, int] | None:
    """What the native side asks to have records read; none where the driver's machine is the only one."""
    others = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if len(others) < 2:
        return None
    processors = int(sum(node["Resources"]["CPU"] for node in others))
    text = _options.as_json(options)

    def read(parts: list[str]) -> list[bytes | None]:
        task = ray.remote(max_retries=3)(_read)
        refs = [task.remote(checkpoint, part, text) for part in parts]
        late = set(_late(refs))
        return [None if ref in late else _answer(ref) for ref in refs]

    return read, max(1, min(_PARTS * processors, _MOST)), AT_LEAST


def _late(refs: list[Any]) -> list[Any]:
    """Waits for parts as long as they come; gives up, and answers, those that do not."""
    left = refs
    while left:
        came, left = ray.wait(left, num_returns=1, timeout=_PATIENCE, fetch_local=False)
        if not came:
            logger.warning("no task of %d has read its part of the records; the driver reads them", len(left))
            for ref in left:
                ray.cancel(ref, force=True)
            return left
    return []


def _read(checkpoint: str, part: str, options: str | None) -> bytes:
    return _native.ClusterAttempt.read_part(checkpoint, part, options)


def _answer(ref: Any) -> bytes | None:
    try:
        return bytes(ray.get(ref))
    except Exception as error:
        logger.warning("a part of the records was not read by its task, and is read by the driver: %s", error)
        return None
