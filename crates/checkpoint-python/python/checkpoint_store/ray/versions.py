"""Which Ray this works with, found out by what it has and not by its number."""

import importlib.util

#: What a missing or old Ray is answered with.
INSTALL = "pip install 'checkpoint-store[ray]'"


def check() -> None:
    """Refuses a Ray without the plug-ins that the checkpoints need.

    Raises:
        ImportError: Ray is missing, or too old. Says which version is there and what to install.
    """
    if importlib.util.find_spec("ray") is None:
        raise ImportError(f"this needs Ray Data: {INSTALL}")
    import inspect

    import ray

    try:
        from ray.data._internal.logical.optimizers import get_logical_ruleset  # noqa: F401
        from ray.data.checkpoint import CheckpointConfig
        from ray.data.context import DataContext

        options = inspect.signature(CheckpointConfig.__init__).parameters
        lacks = [name for name in ("checkpoint_manager_cls", "checkpoint_filter_cls") if name not in options]
        if not hasattr(DataContext, "execution_callback_classes"):
            lacks.append("execution callbacks")
    except ImportError as error:
        lacks = [str(error)]
    if lacks:
        raise ImportError(
            f"Ray {ray.__version__} has no plug-ins for checkpoints ({', '.join(lacks)}): {INSTALL}, or use "
            "checkpoint_store.build_checkpoint_filesystem as the override_filesystem of Ray's own CheckpointConfig"
        )
