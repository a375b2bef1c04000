"""Every error that ctrlhost raises, in one tree.

CtrlhostError
├── ConfigError            the configuration file, the environment or a flag; exit code 2
├── PluginError            one plugin; the others keep running
│   ├── PluginNotFound     no entry point of that name is installed
│   ├── PluginLoadError    the plugin could not be imported, configured or set up
│   └── UndeclaredRead     a reconciler asked for a lister that its controller did not declare
├── TransportError         no answer: connection refused, TLS, time-out, a cut stream
├── ApiError               the API server answered with a failure
│   ├── BadRequest         400
│   ├── Unauthorized       401
│   ├── Forbidden          403
│   ├── NotFound           404
│   ├── MethodNotAllowed   405
│   ├── NotAcceptable      406
│   ├── AlreadyExists      409, reason AlreadyExists
│   ├── Conflict           409
│   ├── Expired            410: the resource version is gone; list again
│   ├── RequestTooLarge    413
│   ├── UnsupportedMediaType 415
│   ├── Invalid            422
│   ├── TooManyRequests    429
│   └── ServerError        5xx
├── ShutDown               a work queue was shut down and has nothing left to hand out
├── CacheError             the cache and its parts
│   ├── DecodeError        what the server sent is malformed, cut, or no list
│   ├── PartialObject      only a part of the object is cached, so it can not be had as a whole
│   ├── KeyFuncError       a key function failed; the cause is chained
│   ├── TransactionError   some operations of a transaction failed; the others were applied
│   └── Closed             a delta FIFO, listener or informer that was closed
├── NotSynced              a lister was asked before its informer had its first list
├── Stale                  the cache did not catch up with one's own write in time
├── NotLeading             a write was refused since this replica does not lead
├── RetryAfter             raised by a reconciler: try again after so many seconds
└── TerminalError          raised by a reconciler: do not retry; wait for the next event
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class CtrlhostError(Exception):
    """The base of all errors of ctrlhost; `hint` says what to do, where there is something to say."""

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        """Keep the message and the advice."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(CtrlhostError):
    """The configuration file, the environment or a flag is wrong; `message` names the setting's path."""


class PluginError(CtrlhostError):
    """A failure of one plugin; the others keep running."""

    def __init__(self, plugin: str, message: str, *, hint: str | None = None) -> None:
        """Name the plugin that failed."""
        super().__init__(message, hint=hint)
        self.plugin = plugin


class PluginNotFound(PluginError):
    """No entry point of that name is installed in the group `ctrlhost`."""


class PluginLoadError(PluginError):
    """The plugin could not be imported, configured or set up."""


class UndeclaredRead(PluginError):
    """A reconciler asked for a lister that its controller did not declare as a source."""


class TransportError(CtrlhostError):
    """The API server gave no answer: connection refused, TLS failure, time-out, a stream cut in the middle.

    `sent` is False where the request surely never reached the server, so that nothing can have come of it.
    """

    def __init__(self, message: str = "", *, sent: bool = True, hint: str | None = None) -> None:
        """Keep the message and whether the request may have reached the server."""
        super().__init__(message, hint=hint)
        self.sent = sent


class ApiError(CtrlhostError):
    """The API server answered with a failure `Status`.

    `causes` are the entries of `details.causes`; `retry_after` is in seconds, None where the server gave none.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        causes: Sequence[dict[str, Any]] = (),
        retry_after: float | None = None,
        *,
        hint: str | None = None,
    ) -> None:
        """Keep what the server's `Status` says."""
        super().__init__(message or f"the server answered {status} {reason}".rstrip(), hint=hint)
        self.status = status
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after = retry_after


class _OneStatus(ApiError):
    """An answer whose status is known from its class."""

    _status = 0
    _reason = ""

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        reason: str | None = None,
        causes: Sequence[dict[str, Any]] = (),
        retry_after: float | None = None,
        hint: str | None = None,
    ) -> None:
        """Build the error as the server would send it; every part has the class's usual value."""
        super().__init__(
            self._status if status is None else status,
            self._reason if reason is None else reason,
            message,
            causes,
            retry_after,
            hint=hint,
        )


class BadRequest(_OneStatus):
    """400: the request makes no sense to the server."""

    _status, _reason = 400, "BadRequest"


class Unauthorized(_OneStatus):
    """401: the credentials are missing, wrong or expired."""

    _status, _reason = 401, "Unauthorized"


class Forbidden(_OneStatus):
    """403: the credentials lack a right; the message names verb, resource and namespace."""

    _status, _reason = 403, "Forbidden"


class NotFound(_OneStatus):
    """404: no such object, or no such resource."""

    _status, _reason = 404, "NotFound"


class MethodNotAllowed(_OneStatus):
    """405: the resource does not have that verb."""

    _status, _reason = 405, "MethodNotAllowed"


class NotAcceptable(_OneStatus):
    """406: the server can not answer in an encoding that was asked for."""

    _status, _reason = 406, "NotAcceptable"


class Conflict(_OneStatus):
    """409: the object was changed since the version the write is based on, or a field has another manager."""

    _status, _reason = 409, "Conflict"


class AlreadyExists(_OneStatus):
    """409: an object of that name exists."""

    _status, _reason = 409, "AlreadyExists"


class Expired(_OneStatus):
    """410: the resource version, or the continue token, is gone; list again."""

    _status, _reason = 410, "Expired"


class RequestTooLarge(_OneStatus):
    """413: the body is larger than the server takes."""

    _status, _reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(_OneStatus):
    """415: the server does not take that encoding or patch type."""

    _status, _reason = 415, "UnsupportedMediaType"


class Invalid(_OneStatus):
    """422: the object breaks a rule; `causes` says which field and why."""

    _status, _reason = 422, "Invalid"


class TooManyRequests(_OneStatus):
    """429: the server asks to slow down; `retry_after` says for how long."""

    _status, _reason = 429, "TooManyRequests"


class ServerError(_OneStatus):
    """5xx: the server failed."""

    _status, _reason = 500, "InternalError"


class ShutDown(CtrlhostError):
    """The work queue was shut down and has nothing left to hand out; the worker that asked may go."""


class CacheError(CtrlhostError):
    """A failure of the cache or of one of its parts."""


class DecodeError(CacheError):
    """What the API server sent is malformed, cut in the middle, or no list at all; nothing of it was half kept.

    `resource` says of what, `offset` at which byte of the body, `first_bytes` what the page or frame begins with;
    `status` is the `Status` object that came instead of a list, as a dict.
    """

    def __init__(
        self, resource: str, offset: int, what: str, first_bytes: bytes = b"", status: dict[str, Any] | None = None
    ) -> None:
        """Say where in which body decoding failed."""
        shown = first_bytes.decode("ascii", "backslashreplace").encode("unicode_escape").decode()
        super().__init__(f"{resource}: byte {offset}: {what}; it begins with `{shown}`")
        self.resource = resource
        self.offset = offset
        self.what = what
        self.first_bytes = first_bytes
        self.status = status


class PartialObject(CacheError):
    """Only a part of the object is cached (its metadata, or what was declared with `reads=`)."""


class KeyFuncError(CacheError):
    """A key function failed; nothing was changed. `__cause__` is what it raised."""


class TransactionError(CacheError):
    """Some operations of a transaction failed; the others, at the positions in `successful`, were applied."""

    def __init__(self, successful: Sequence[int], total: int, errors: Sequence[BaseException]) -> None:
        """Count what failed."""
        super().__init__(f"failed to execute ({len(errors)}/{total}) transactions: {'; '.join(map(str, errors))}")
        self.successful = tuple(successful)
        self.total = total
        self.errors = tuple(errors)


class Closed(CacheError):
    """The delta FIFO, listener or informer was closed and has nothing left."""


class NotSynced(CtrlhostError):
    """A lister was asked before its informer had its first list."""


class Stale(CtrlhostError):
    """The cache did not catch up with the plugin's own write in time; the reconcile is retried."""


class NotLeading(CtrlhostError):
    """A controller that needs to lead wanted to write while this replica does not lead."""


class RetryAfter(CtrlhostError):
    """Raise it in a reconciler to be called again after `seconds`, without counting as a failure of the back-off.

    A time that is over already means the soonest that there is, 5 ms.
    """

    def __init__(self, seconds: float, message: str = "") -> None:
        """Keep the delay, in seconds."""
        super().__init__(message or f"retry after {seconds:g} s")
        self.seconds = seconds


class TerminalError(CtrlhostError):
    """Raise it in a reconciler when only a change of the object can help; there is no retry until the next event."""


_BY_STATUS: dict[int, type[_OneStatus]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Expired,
    413: RequestTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
}


def from_status(
    status: int,
    reason: str = "",
    message: str = "",
    causes: Sequence[dict[str, Any]] = (),
    retry_after: float | None = None,
) -> ApiError:
    """Give the error class that stands for an HTTP status and the reason of the server's `Status` object."""
    kind: type[_OneStatus] | None = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status)
    if kind is None and status >= 500:
        kind = ServerError
    if kind is None:
        return ApiError(status, reason, message, causes, retry_after)
    return kind(message, status=status, reason=reason, causes=causes, retry_after=retry_after)
