"""All errors that ctrlhost raises, in one tree.

CtrlhostError
├── ConfigError            an invalid configuration file, environment or flag; exit code 2
├── PluginError            a failure of one plugin; the others keep running
│   ├── PluginNotFound     no entry point of that name is installed
│   ├── PluginLoadError    the plugin cannot be imported, configured or set up
│   └── UndeclaredRead     a reconciler reads a kind that its controller does not declare
├── TransportError         no response: connection refused, TLS failure, timeout, truncated stream
├── ApiError               a failure that the API server answers with
│   ├── BadRequest         400
│   ├── Unauthorized       401
│   ├── Forbidden          403
│   ├── NotFound           404
│   │   └── UnknownKind    the server does not serve the kind
│   ├── MethodNotAllowed   405
│   ├── NotAcceptable      406
│   ├── AlreadyExists      409 with the reason AlreadyExists
│   ├── Conflict           409, other reasons
│   ├── Expired            410: the resource version is too old; list again
│   ├── RequestTooLarge    413
│   ├── UnsupportedMediaType  415
│   ├── Invalid            422
│   ├── TooManyRequests    429
│   └── ServerError        5xx
├── ShutDown               the work queue is shut down and empty
├── CacheError             a failure of the cache
│   ├── DecodeError        the server sent malformed, truncated or unexpected data
│   ├── PartialObject      only a part of the object is cached
│   ├── KeyFuncError       a key function failed; the cause is chained
│   ├── TransactionError   some operations of a transaction failed; the others were applied
│   ├── OverBudget         the memory budget of the informers has no room for an object
│   └── Closed             the delta FIFO, listener or informer is closed
├── NotSynced              a lister was read before its informer had its first list
├── Stale                  the cache did not catch up with the plugin's own write in time
├── NotOwned               an object was not written: another owner controls it, or nobody
├── NotLeading             a write was not sent, because this replica does not lead, or no longer in the work's term
├── BlockingCall           a request was not sent, because an `async def` would have waited for it without `await`
├── PluginRestarted        a request was not sent, because its client belongs to an earlier run of the plugin
├── RetryAfter             raised by a reconciler: try again after so many seconds
├── Denied                 raised by an admission webhook: the request is refused
├── InvalidObject          a cached object does not fit its model
└── TerminalError          raised by a reconciler: do not retry; wait for the next event
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ctrlhost.duration import in_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.duration import DurationLike


class CtrlhostError(Exception):
    """The base of all errors of ctrlhost; `hint` is advice for the user, or None."""

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        """Set the message and the advice."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(CtrlhostError):
    """The configuration file, the environment or a flag is invalid; `message` names the setting's path."""


class PluginError(CtrlhostError):
    """A failure of one plugin; the others keep running."""

    def __init__(self, plugin: str, message: str, *, hint: str | None = None) -> None:
        """Name the plugin that failed."""
        super().__init__(message, hint=hint)
        self.plugin = plugin


class PluginNotFound(PluginError):
    """No entry point of that name is installed in the group `ctrlhost`."""


class PluginLoadError(PluginError):
    """The plugin cannot be imported, configured or set up."""


class UndeclaredRead(PluginError):
    """A reconciler asked for a lister of a kind that its controller does not declare as a source."""


class TransportError(CtrlhostError):
    """The API server sent no response: connection refused, TLS failure, timeout, truncated stream.

    `sent` is False if the request certainly did not reach the server, so that it had no effect.
    """

    def __init__(self, message: str = "", *, sent: bool = True, hint: str | None = None) -> None:
        """Set the message and whether the request may have reached the server."""
        super().__init__(message, hint=hint)
        self.sent = sent


class ApiError(CtrlhostError):
    """The API server answered with a failure `Status`.

    Catch one of its subclasses, such as `ctrlhost.NotFound`, or compare `status` (404) or `reason` ("NotFound").
    `causes` are the entries of `details.causes`; `retry_after` is in seconds, None unless the server sent it.
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
        """Set the fields of the server's `Status`."""
        super().__init__(message or f"the server answered {status} {reason}".rstrip(), hint=hint)
        self.status = status
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after = retry_after


class _OneStatus(ApiError):
    """A failure whose class determines its status and its usual reason."""

    status = 0
    reason = ""

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
        """Create the error as the server would send it; each part defaults to the usual value of the class."""
        super().__init__(
            self.status if status is None else status,
            self.reason if reason is None else reason,
            message,
            causes,
            retry_after,
            hint=hint,
        )


class BadRequest(_OneStatus):
    """400: the request is malformed."""

    status, reason = 400, "BadRequest"


class Unauthorized(_OneStatus):
    """401: the credentials are missing, invalid or expired."""

    status, reason = 401, "Unauthorized"


class Forbidden(_OneStatus):
    """403: the credentials lack a permission; the message names verb, resource and namespace."""

    status, reason = 403, "Forbidden"

    #: The right that an authorizer has missed, as namespace, group, resource and verb; None if it is not known.
    right: tuple[str, str, str, str] | None = None


class NotFound(_OneStatus):
    """404: no such object, or no such resource."""

    status, reason = 404, "NotFound"


class UnknownKind(NotFound):
    """The server does not serve the kind; the message names the nearest one, or the versions that the group has."""


class MethodNotAllowed(_OneStatus):
    """405: the resource does not support that verb."""

    status, reason = 405, "MethodNotAllowed"


class NotAcceptable(_OneStatus):
    """406: the server cannot answer in a requested encoding."""

    status, reason = 406, "NotAcceptable"


class Conflict(_OneStatus):
    """409: the object was changed since the version the write is based on, or a field has another manager.

    Let it pass: the host retries the key, and the next run reads the newer object.
    """

    status, reason = 409, "Conflict"


class AlreadyExists(_OneStatus):
    """409: an object of that name exists."""

    status, reason = 409, "AlreadyExists"


class Expired(_OneStatus):
    """410: the resource version, or the continue token, is too old; list again."""

    status, reason = 410, "Expired"


class RequestTooLarge(_OneStatus):
    """413: the body is larger than the server accepts."""

    status, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(_OneStatus):
    """415: the server does not accept that encoding or patch type."""

    status, reason = 415, "UnsupportedMediaType"


class Invalid(_OneStatus):
    """422: the object breaks a rule; `causes` name the fields and the reasons.

    A retry does not help until the object changes, so a reconciler turns it into a TerminalError:

    ```python
    # a part of a controller
    try:
        ctx.ensure(claim)
    except ctrlhost.Invalid as error:
        ctx.status.condition("Ready", False, "Refused", error.message)
        raise ctrlhost.TerminalError(error.message) from error
    ```
    """

    status, reason = 422, "Invalid"


class TooManyRequests(_OneStatus):
    """429: the server asks to slow down, for `retry_after` seconds if set."""

    status, reason = 429, "TooManyRequests"


class ServerError(_OneStatus):
    """5xx: the server failed."""

    status, reason = 500, "InternalError"


class ShutDown(CtrlhostError):
    """The work queue is shut down and empty; the worker that called `get` should return."""


class CacheError(CtrlhostError):
    """A failure of the cache or of one of its parts."""


class DecodeError(CacheError):
    """The API server sent malformed or truncated data, or no list; none of it was kept.

    `resource` names the kind, `offset` the byte of the body, `first_bytes` the start of the page or frame; `status` is
    the `Status` object that the server sent instead of a list, as a dict.
    """

    def __init__(
        self, resource: str, offset: int, what: str, first_bytes: bytes = b"", status: dict[str, Any] | None = None
    ) -> None:
        """Name the body and the place where decoding failed."""
        beginning = first_bytes.decode("ascii", "backslashreplace").encode("unicode_escape").decode()
        super().__init__(f"{resource}: byte {offset}: {what}; it begins with `{beginning}`")
        self.resource = resource
        self.offset = offset
        self.what = what
        self.first_bytes = first_bytes
        self.status = status


class PartialObject(CacheError):
    """Only a part of the object is cached (its metadata, or the fields declared with `reads=`)."""


class KeyFuncError(CacheError):
    """A key function failed; nothing was changed. `__cause__` is its exception."""


class TransactionError(CacheError):
    """Some operations of a transaction failed; the others, at the positions in `successful`, were applied."""

    def __init__(self, successful: Sequence[int], total: int, errors: Sequence[BaseException]) -> None:
        """Set the results of the operations."""
        super().__init__(f"failed to execute ({len(errors)}/{total}) transactions: {'; '.join(map(str, errors))}")
        self.successful = tuple(successful)
        self.total = total
        self.errors = tuple(errors)


class OverBudget(CacheError):
    """The memory budget of the informers has no room for an object, which was not taken.

    `objects` is the number of objects until then; `made_room` is whether the next list may fit, since what is gone is
    dropped; `learning` is whether a later one may, since a dictionary is being learnt for compression.
    """

    def __init__(self, limit: int, objects: int, made_room: bool = False, learning: bool = False) -> None:
        """Set the figures; `limit` is in bytes."""
        units = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
        size = next(f"{limit // size:,} {unit}" for unit, size in units if limit % size == 0)
        super().__init__(f"memory budget of {size} reached after {objects:,} objects")
        self.limit = limit
        self.objects = objects
        self.made_room = made_room
        self.learning = learning


class Closed(CacheError):
    """The delta FIFO, listener or informer is closed and empty."""


class NotSynced(CtrlhostError):
    """A lister was read before its informer had its first list."""


class Stale(CtrlhostError):
    """The cache did not catch up with the plugin's own write in time; the reconcile is retried."""


class NotOwned(CtrlhostError):
    """An object was not written, because another owner controls it, or nobody does.

    A reconcile that ends with it has not failed: it runs again after a minute. `ctx.ensure(obj, adopt=True)` takes over
    an object that nobody controls.
    """


class NotLeading(CtrlhostError):
    """A write was not sent: it needs leadership, and this replica does not lead, or no longer in the work's term.

    `reason` is `term` if the term is over, or never began, `deadline` if the lease could not be renewed in time, and
    `shard` if the key now belongs to another replica.
    """

    def __init__(self, message: str = "", *, reason: Literal["term", "deadline", "shard"] = "term") -> None:
        """Set the message and the reason."""
        super().__init__(message)
        self.reason = reason


class BlockingCall(CtrlhostError):
    """A request was not sent: an `async def` must not wait for it without `await`, since that stops its event loop."""


class PluginRestarted(CtrlhostError):
    """A request was not sent: its client belongs to an earlier run of the plugin, which has failed or restarted."""

    reason: Literal["restarted"] = "restarted"


class RetryAfter(CtrlhostError):
    """Raised by a reconciler to run again after a delay; does not count as a failure for the back-off.

    ```python
    # a part of a controller
    if not ctx.state.open:
        raise ctrlhost.RetryAfter("30s", "the database is starting")
    ```

    The delay is a duration such as `"5s"` or a number of seconds. Delays below 5 ms, also negative ones, become 5 ms.
    An invalid duration raises ValueError or TypeError.
    """

    def __init__(self, seconds: DurationLike, message: str = "") -> None:
        """Set the delay."""
        self.seconds = in_seconds(seconds)
        super().__init__(message or f"retry after {self.seconds:g} s")


class TerminalError(CtrlhostError):
    """Raised by a reconciler when only a change of the object can help: no retry until the next event.

    ```python
    # a part of a controller
    if database.spec.size > 9:
        raise ctrlhost.TerminalError("size is 9 at most")
    ```
    """


class Denied(CtrlhostError):
    """Raised by a function of `@plugin.validate` or `@plugin.mutate` to refuse the request.

    ```python
    # a part of a plugin
    @plugin.validate(Database)
    def check(ctx, new, old):
        if old is not None and new.spec.size < old.spec.size:
            raise ctrlhost.Denied("must not shrink", field="spec.size")
    ```

    The API server answers the request with the HTTP status `code`, 400 to 599, and the text; ValueError for others.
    `field` is the path of the field that is wrong, if there is one.
    """

    def __init__(self, message: str, *, field: str = "", code: int = 422) -> None:
        """Set the parts of the answer."""
        if not isinstance(code, int) or not 400 <= code <= 599:
            raise ValueError(f"the code of a denial is an HTTP status from 400 to 599, got {code!r}")
        # Texts also of what a caller without types gives: the API server takes nothing else.
        super().__init__(str(message))
        self.field = str(field or "")
        self.code = code

    @property
    def reason(self) -> str:
        """The reason of the answer's `Status`, such as `Invalid`."""
        kind = _BY_STATUS.get(self.code)
        return kind.reason if kind is not None else "InternalError" if self.code >= 500 else ""

    @property
    def full_message(self) -> str:
        """The message with the field."""
        return f"{self.field}: {self.message}" if self.field else self.message

    def __str__(self) -> str:
        """Return the message with the field."""
        return self.full_message


class InvalidObject(CtrlhostError):
    """A cached object does not fit its model; `problem` has the path, such as `spec.size: expected int, got str`.

    A run whose own object does not fit ends with TerminalError; one that reads such an object is retried.
    """

    def __init__(self, name: str, problem: str, obj: Any = None) -> None:
        """Name the object and what does not fit; `obj` is the object itself."""
        hint = "correct the object; a kind that is given as a text is read as `ctrlhost.Object`, without a model"
        super().__init__(f"{name}: {problem}", hint=hint)
        self.problem = problem
        self.object = obj


# 409 has two classes; the reason decides.
_BY_STATUS = {kind.status: kind for kind in _OneStatus.__subclasses__() if kind is not AlreadyExists}


def from_status(
    status: int,
    reason: str = "",
    message: str = "",
    causes: Sequence[dict[str, Any]] = (),
    retry_after: float | None = None,
) -> ApiError:
    """Return the error for an HTTP status and the fields of the server's `Status` object."""
    usual = ServerError if status >= 500 else None
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, usual)
    if kind is None:
        return ApiError(status, reason, message, causes, retry_after)
    return kind(message, status=status, reason=reason, causes=causes, retry_after=retry_after)
