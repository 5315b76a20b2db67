"""A trial of the checkpoint and the output from several machines: a path that is not shared fails in seconds."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from checkpoint_store.arrow import StoreHandler
from checkpoint_store.errors import ConflictError
from checkpoint_store.ray.filesystems import unwrap

if TYPE_CHECKING:
    from checkpoint_store.ray.filesystems import Options

#: Machines that are asked.
_MOST_NODES = 8


def try_place(url: str, options: Options | None, folder: str) -> None:
    """Writes, lists, reads and deletes a file below a directory, here and on other machines of the cluster.

    Raises:
        ConflictError: A machine does not see what the driver wrote, or the other way round: the path is not shared.
        CheckpointError: A machine cannot reach the place, or may not use it.
    """
    handler = StoreHandler(url.partition("://")[0], options)
    root = handler.normalize_path(unwrap(url))
    nonce = uuid.uuid4().hex
    here = f"{root}/{folder}/{nonce}"
    alive = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    nodes = alive[:_MOST_NODES]
    made = [place for place in (here, f"{root}/{folder}", f"{root}/_meta", root) if not _is_there(handler, place)]
    handler.store.write(f"{here}/driver", nonce.encode())
    try:
        seen = set(ray.get([_start(node, handler.scheme, options, here, nonce) for node in nodes]))
        blind = [node for node in nodes if node not in seen or handler.store.stat(f"{here}/{node}") is None]
        if blind:
            raise ConflictError(
                f"not every machine sees the same directory: url={url} machines={len(blind)} of {len(nodes)}\nhint: "
                "give a path that all machines share, such as an object store or a mounted file system"
            )
    finally:
        handler.delete_files([f"{here}/{name}" for name in ("driver", *nodes)])
        if handler.store.abilities(here)[2]:
            _remove_empty(handler, made)


def _start(node: str, *given: Any) -> Any:
    there = NodeAffinitySchedulingStrategy(node, soft=True)
    return ray.remote(_try).options(scheduling_strategy=there, num_cpus=0).remote(node, *given)


def _try(node: str, scheme: str, options: Options | None, here: str, nonce: str) -> str | None:
    """Looks for what the driver wrote, and writes something itself; answers who did."""
    store = StoreHandler(scheme, options).store
    if store.stat(f"{here}/driver") is None or store.read(f"{here}/driver") != nonce.encode():
        return None
    if not any(path.endswith("/driver") for path, _ in store.list(here)):
        return None
    store.write(f"{here}/{node}", nonce.encode())
    return node


def _is_there(handler: StoreHandler, folder: str) -> bool:
    return handler.store.info(folder)[0] == "directory"


def _remove_empty(handler: StoreHandler, folders: list[str]) -> None:
    """Leaves no directory behind that was made for the trial; what is not empty stays."""
    for folder in folders:
        if handler.store.list(folder) or handler.store.delete([folder]):
            return
