"""One tree of exceptions. Each leaf is also the builtin exception that people expect."""

from __future__ import annotations


class CheckpointError(Exception):
    """The root of all of them.

    Attributes:
        kind: A short name of the class that never changes, such as ``not_found``.
        hint: What to do next, if anything can be said.
        operation: The operation that failed, such as ``read``.
        url: What it was about.
        service_code: The service's own code, where it answered with one.
        request_id: The service's request ID, for its support desk.
        is_retryable: Whether trying again may help.
    """

    kind: str = "error"
    hint: str | None = None
    operation: str | None = None
    url: str | None = None
    service_code: str | None = None
    request_id: str | None = None
    is_retryable: bool = False


class NotFoundError(CheckpointError, FileNotFoundError):
    """There is no such object, bucket or volume."""

    kind = "not_found"


class NoCheckpointError(NotFoundError):
    """There is no checkpoint at this place, or its job has ended."""

    kind = "no_checkpoint"


class IsDirectoryError(CheckpointError, IsADirectoryError):
    """There is a directory where an object was wanted."""

    kind = "is_directory"


class AlreadyExistsError(CheckpointError, FileExistsError):
    """Something is there already that was not to be replaced."""

    kind = "already_exists"


class PermissionDeniedError(CheckpointError, PermissionError):
    """The credentials do not allow it."""

    kind = "permission_denied"


class UnauthenticatedError(CheckpointError, PermissionError):
    """The credentials are missing, wrong or expired."""

    kind = "unauthenticated"


class InvalidConfigError(CheckpointError, ValueError):
    """An option, a path or a setting is wrong."""

    kind = "invalid_config"


class UnsupportedError(CheckpointError, NotImplementedError):
    """The store cannot do this, or no store has this scheme."""

    kind = "unsupported"


class ConflictError(CheckpointError, OSError):
    """Somebody else holds or changed what was needed."""

    kind = "conflict"


class RateLimitedError(CheckpointError, OSError):
    """The service asked to slow down, and went on asking."""

    kind = "rate_limited"


class StorageTimeoutError(CheckpointError, TimeoutError):
    """There was no answer within the time allowed."""

    kind = "timeout"


class BadDataError(CheckpointError, ValueError):
    """IDs, records or data are damaged or break the rules."""

    kind = "bad_data"


class CorruptError(BadDataError):
    """What was read is damaged."""

    kind = "corrupt"


class OutcomeUnknownError(CheckpointError, OSError):
    """Nobody knows whether the effect happened. Nothing was deleted."""

    kind = "outcome_unknown"


class StorageError(CheckpointError, OSError):
    """Any other failure of the network, the service or the disk."""

    kind = "storage"


class TransformError(CheckpointError, RuntimeError):
    """The callable failed on a batch. Its own exception is the cause."""

    kind = "transform"


class RunInterruptedError(CheckpointError, InterruptedError):
    """The run was asked to stop. What was finished is committed."""

    kind = "interrupted"
