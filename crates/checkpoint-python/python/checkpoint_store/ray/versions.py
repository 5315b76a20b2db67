"""Which Ray this works with, found out by what it has and not by its number."""

from __future__ import annotations

import importlib.util

#: What a missing or old Ray is answered with.
INSTALL = "pip install 'checkpoint-store[ray]'"


def check() -> None:
    """Refuses a Ray without the plug-ins that the checkpoints need.

    Raises:
        ImportError: Ray is missing, or too old. Says which version is there, what it has, and what to do.
    """
    if importlib.util.find_spec("ray") is None:
        raise ImportError(f"this needs Ray Data: {INSTALL}")
    import ray

    lacks = lacking()
    if not lacks:
        return
    there = f"Ray {getattr(ray, '__version__', 'of no version')}"
    if "checkpoints" in lacks:
        raise ImportError(f"{there} has no checkpoints (ray.data.checkpoint): {INSTALL}")
    raise ImportError(
        f"{there} has checkpoints and not what this plugs into them ({', '.join(lacks)}): {INSTALL}, or use "
        "checkpoint_store.build_checkpoint_filesystem(...) alone, as the override_filesystem of Ray's own "
        "CheckpointConfig; docs/ray.md says what that does"
    )


def lacking() -> list[str]:
    """What this needs and the Ray that is installed does not have.

    Raises:
        ImportError: Ray is there and Ray Data is not, or it cannot be imported. Says so in its own words.
    """
    import inspect

    from ray.data.context import DataContext

    if importlib.util.find_spec("ray.data.checkpoint") is None:
        return ["checkpoints"]
    from ray.data.checkpoint import CheckpointConfig

    options = inspect.signature(CheckpointConfig.__init__).parameters
    lacks = [name for name in ("checkpoint_manager_cls", "checkpoint_filter_cls") if name not in options]
    if not hasattr(DataContext, "execution_callback_classes"):
        lacks.append("execution_callback_classes")
    try:
        from ray.data._internal.logical.optimizers import get_logical_ruleset  # noqa: F401
    except ImportError:
        lacks.append("get_logical_ruleset")
    return lacks
