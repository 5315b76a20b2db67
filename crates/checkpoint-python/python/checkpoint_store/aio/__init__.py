"""Filesystems and checkpoints for ``asyncio``: the same native calls, awaited.

Needs nothing but Python. Every method may be called from any event loop; cancelling what is awaited drops the work.
"""

from checkpoint_store.aio.attempt import AsyncAttempt, AsyncTask
from checkpoint_store.aio.filesystem import AsyncFilesystem
from checkpoint_store.aio.store import AsyncCheckpointStore

__all__ = ["AsyncAttempt", "AsyncCheckpointStore", "AsyncFilesystem", "AsyncTask"]
