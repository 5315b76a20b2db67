"""One tree of exceptions. Each leaf is also the builtin exception that people expect."""


class CheckpointError(Exception):
    """The root of all of them.

    Attributes:
        hint: What to do next, if anything can be said.
        operation: The operation that failed, such as ``read``.
        url: What it was about.
        service_code: The service's own code, where it answered with one.
        request_id: The service's request ID, for its support desk.
        is_retryable: Whether trying again may help.
    """

    hint = None
    operation = None
    url = None
    service_code = None
    request_id = None
    is_retryable = False


class NotFoundError(CheckpointError, FileNotFoundError):
    """There is no such object, bucket or volume."""


class AlreadyExistsError(CheckpointError, FileExistsError):
    """Something is there already that was not to be replaced."""


class PermissionDeniedError(CheckpointError, PermissionError):
    """The credentials do not allow it."""


class UnauthenticatedError(CheckpointError, PermissionError):
    """The credentials are missing, wrong or expired."""


class InvalidConfigError(CheckpointError, ValueError):
    """An option, a path or a setting is wrong."""


class UnsupportedError(CheckpointError, NotImplementedError):
    """The store cannot do this, or no store has this scheme."""


class ConflictError(CheckpointError, OSError):
    """Somebody else holds or changed what was needed."""


class RateLimitedError(CheckpointError, OSError):
    """The service asked to slow down, and went on asking."""


class StorageTimeoutError(CheckpointError, TimeoutError):
    """There was no answer within the time allowed."""


class CorruptError(CheckpointError, ValueError):
    """What was read is damaged."""


class OutcomeUnknownError(CheckpointError, OSError):
    """Nobody knows whether the effect happened."""


class StorageError(CheckpointError, OSError):
    """Any other failure of the network, the service or the disk."""
