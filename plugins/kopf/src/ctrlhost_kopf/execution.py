"""Call handlers: with kopf's arguments, on the loop or on a thread, and with its rules for errors and retries."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import enum
import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ctrlhost_kopf import lifecycles
from ctrlhost_kopf.dicts import resolve
from ctrlhost_kopf.diffs import Diff
from ctrlhost_kopf.filters import changing
from ctrlhost_kopf.progress import HandlerState, State
from ctrlhost_kopf.registry import Handler, id_of, unique

if TYPE_CHECKING:
    from ctrlhost_kopf.bodies import Body, Resource
    from ctrlhost_kopf.patches import Patch
    from ctrlhost_kopf.plugin import Operator


class Reason(enum.StrEnum):
    """The cause of a pass."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RESUME = "resume"
    NOOP = "noop"
    FREE = "free"
    GONE = "gone"

    def __str__(self) -> str:
        return str(self.value)


class ErrorsMode(enum.Enum):
    """What an error means that is neither temporary nor permanent."""

    IGNORED = enum.auto()
    TEMPORARY = enum.auto()
    PERMANENT = enum.auto()


class PermanentError(Exception):
    """The handler has failed and is not called again for this cause."""


class TemporaryError(Exception):
    """The handler is called again after `delay` seconds."""

    def __init__(self, message: str | None = None, delay: float | None = 60) -> None:
        super().__init__(message)
        self.delay = delay


class HandlerTimeoutError(PermanentError):
    """The handler has no time left for another attempt."""


class HandlerRetriesError(PermanentError):
    """The handler has no attempts left."""


class _ChildrenRetry(TemporaryError):
    """Subhandlers are not finished."""


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt; `final` if it was the last one."""

    final: bool
    delay: float | None = None
    result: Any = None
    exception: Exception | None = None
    subrefs: frozenset[str] = frozenset()


@dataclass
class Cause:
    """Why handlers are called, and what they get."""

    operator: Operator
    logger: Any
    memo: Any
    group: str
    resource: Resource = None  # type: ignore[assignment] # only activities have none
    body: Body = None  # type: ignore[assignment]
    patch: Patch = None  # type: ignore[assignment]
    reason: Reason | None = None
    initial: bool = False
    old: Any = None
    new: Any = None
    diff: Diff | None = None
    #: Further arguments, such as `event` and `type`.
    extra: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def kwargs(self) -> dict[str, Any]:
        """The arguments of handlers and of the functions of filters."""
        kwargs: dict[str, Any] = {"logger": self.logger, "memo": self.memo, **self.extra}
        if self.body is not None:
            meta = self.body.metadata
            kwargs |= {"resource": self.resource, "patch": self.patch, "body": self.body, "spec": self.body.spec}
            kwargs |= {"meta": meta, "status": self.body.status, "uid": meta.uid, "name": meta.name}
            kwargs |= {"namespace": meta.namespace, "labels": meta.labels, "annotations": meta.annotations}
        if self.group == "change":
            kwargs["reason"] = self.reason
        if self.group in ("change", "webhook"):
            kwargs |= {"old": self.old, "new": self.new, "diff": self.diff}
        return kwargs | self.operator.indexers


class Children(list[Handler]):
    """The subhandlers that a handler registers, and whether they were called."""

    executed = False


handler_var: ContextVar[Handler] = ContextVar("ctrlhost_kopf_handler")
cause_var: ContextVar[Cause] = ContextVar("ctrlhost_kopf_cause")
subregistry_var: ContextVar[Children] = ContextVar("ctrlhost_kopf_subregistry")
_lifecycle_var: ContextVar[Any] = ContextVar("ctrlhost_kopf_lifecycle", default=None)
_subrefs_var: ContextVar[tuple[set[str], ...]] = ContextVar("ctrlhost_kopf_subrefs", default=())


async def execute_handlers(
    cause: Cause,
    handlers: Sequence[Handler],
    state: State,
    lifecycle: Callable[..., Sequence[Handler]],
    default_errors: ErrorsMode = ErrorsMode.TEMPORARY,
) -> dict[str, Outcome]:
    """Call those of the handlers that are due and that the lifecycle chooses; return their outcomes by id."""
    due = [handler for handler in handlers if state[handler.id].awakened]
    return {
        handler.id: await execute_handler(handler, cause, state[handler.id], lifecycle, default_errors)
        for handler in lifecycle(due, state=state, **cause.kwargs)
    }


async def execute_handler(
    handler: Handler,
    cause: Cause,
    state: HandlerState,
    lifecycle: Callable[..., Sequence[Handler]] | None = None,
    default_errors: ErrorsMode = ErrorsMode.TEMPORARY,
) -> Outcome:
    """Call a handler once, and say what its result or error means."""
    subrefs: set[str] = set()
    log = cause.logger
    try:
        _check_limits(handler, state)
        result = await invoke_handler(handler, cause, state, lifecycle, subrefs)
    except _ChildrenRetry as error:
        outcome = Outcome(False, error.delay, exception=error)
    except TemporaryError as error:
        outcome = _retried(handler, state, error, error.delay)
        log.error("%s failed for now: %s", handler, outcome.exception)
    except PermanentError as error:
        log.error("%s failed for good: %s", handler, str(error) or repr(error))
        outcome = Outcome(True, exception=error)
    except Exception as error:
        mode = handler.errors or default_errors
        backoff = cause.operator.settings.execution.default_backoff if handler.backoff is None else handler.backoff
        if mode is ErrorsMode.TEMPORARY:
            outcome = _retried(handler, state, error, backoff)
        else:
            outcome = Outcome(True, exception=None if mode is ErrorsMode.IGNORED else error)
        what = "is not called again" if outcome.final else f"is called again in {backoff:g} s"
        log.exception("%s failed and %s: %s", handler, what, str(error) or repr(error))
    else:
        # Events come in thousands; a line for each would take a third of the time.
        log.log(logging.DEBUG if cause.group == "event" else logging.INFO, "%s succeeded", handler)
        outcome = Outcome(True, result=result)
    return replace(outcome, subrefs=frozenset(subrefs))


def _check_limits(handler: Handler, state: HandlerState) -> None:
    if handler.timeout is not None and state.runtime.total_seconds() >= handler.timeout:
        raise HandlerTimeoutError(f"{handler} has timed out after {state.runtime}")
    if handler.retries is not None and state.retries >= handler.retries:
        raise HandlerRetriesError(f"{handler} has failed {state.retries} times")


def _retried(handler: Handler, state: HandlerState, error: Exception, delay: float | None) -> Outcome:
    """Return that a handler is called again, unless that would be too late or once too often."""
    text = str(error) or repr(error)
    if handler.timeout is not None and state.runtime.total_seconds() + (delay or 0) >= handler.timeout:
        return Outcome(True, exception=HandlerTimeoutError(f"{handler} has {handler.timeout:g} s in all: {text}"))
    if handler.retries is not None and state.retries + 1 >= handler.retries:
        return Outcome(True, exception=HandlerRetriesError(f"{handler} has {handler.retries} attempts in all: {text}"))
    return Outcome(False, delay, exception=error)


async def invoke_handler(
    handler: Handler,
    cause: Cause,
    state: HandlerState,
    lifecycle: Callable[..., Sequence[Handler]] | None = None,
    subrefs: set[str] | None = None,
) -> Any:
    """Call a handler with its arguments and then its subhandlers, and return the result of the first."""
    if handler.field is not None and cause.group == "change":
        old, new = (resolve(essence, handler.field, None) for essence in (cause.old, cause.new))
        cause = replace(cause, old=old, new=new, diff=(cause.diff or Diff()).reduce(handler.field))
    kwargs = {"param": handler.param, "retry": state.retries, "started": state.started, "runtime": state.runtime}
    if cause.group == "event":
        # No subhandlers, so the variables can stay until the next call.
        handler_var.set(handler)
        cause_var.set(cause)
        return await invoke(cause.operator.settings.execution.executor, handler.fn, kwargs | cause.kwargs)
    children = Children()

    async def call() -> Any:
        handler_var.set(handler)
        cause_var.set(cause)
        _lifecycle_var.set(lifecycle)
        _subrefs_var.set((*_subrefs_var.get(), set() if subrefs is None else subrefs))
        subregistry_var.set(children)
        result = await invoke(cause.operator.settings.execution.executor, handler.fn, kwargs | cause.kwargs)
        if children and not children.executed:
            await execute()
        return result

    # In a task of its own, so that the variables of one call are not seen by others.
    return await asyncio.create_task(call())


async def invoke(executor: Any, fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function: on the loop if it is `async def`, else on a thread, which is awaited even if it is cancelled.

    RuntimeError for one that ends the process: others run in it.
    """
    try:
        return await (fn(**kwargs) if is_async(fn) else _on_thread(executor, fn, kwargs))
    except SystemExit as error:
        raise RuntimeError(f"sys.exit({error.code!r}) does not end the host") from error


async def _on_thread(executor: Any, fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    call = functools.partial(contextvars.copy_context().run, functools.partial(fn, **kwargs))
    future = asyncio.get_running_loop().run_in_executor(executor, call)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return future.result()


def is_async(fn: Any) -> bool:
    """Return whether a function is `async def`, also below decorators."""
    if isinstance(fn, functools.partial):
        return is_async(fn.func)
    return is_async(fn.__wrapped__) if hasattr(fn, "__wrapped__") else inspect.iscoroutinefunction(fn)


def deliver_results(outcomes: Mapping[str, Outcome], patch: Patch) -> None:
    """Add what handlers have returned to the status."""
    for key, outcome in outcomes.items():
        if outcome.exception is not None or outcome.result is None:
            continue
        if isinstance(outcome.result, Mapping):
            patch.setdefault("status", {}).setdefault(key, {}).update(outcome.result)
        else:
            patch.setdefault("status", {})[key] = copy.deepcopy(outcome.result)


async def execute(
    *,
    fns: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]] | None = None,
    handlers: Iterable[Handler] | None = None,
    registry: Iterable[Handler] | None = None,
    lifecycle: Callable[..., Sequence[Handler]] | None = None,
    cause: Cause | None = None,
) -> None:
    """Call the subhandlers of the handler that runs; it is called again until they are finished.

    TypeError for more than one source of them, RuntimeError in a handler that has none.
    """
    cause = cause or cause_var.get()
    if sum(source is not None for source in (fns, handlers, registry)) > 1:
        raise TypeError("subhandlers come from one of fns=, handlers= and registry=")
    if cause.group != "change":
        raise RuntimeError("only handlers of changes have subhandlers")
    if fns is not None:
        prefix = handler_var.get().id
        named = fns if isinstance(fns, Mapping) else {id_of(fn): fn for fn in fns}
        children = [Handler("change", fn, f"{prefix}/{key}") for key, fn in named.items()]
    elif handlers is not None or registry is not None:
        children = [*(handlers or registry or ())]
    else:
        registered = subregistry_var.get()
        if registered.executed:
            return
        registered.executed, children = True, registered
    await _execute_children(cause, children, lifecycle or _lifecycle_var.get() or lifecycles.get_default_lifecycle())


async def _execute_children(
    cause: Cause, children: Sequence[Handler], lifecycle: Callable[..., Sequence[Handler]]
) -> None:
    operator, due = cause.operator, changing(children, cause)
    storage = operator.settings.persistence.progress_storage
    state = State.of_storage(cause.body, storage, unique(children), operator.time).for_handlers(cause.reason, due)
    outcomes = await execute_handlers(cause, due, state, lifecycle)
    state = state.with_outcomes(outcomes)
    state.store(cause.body, cause.patch, storage)
    deliver_results(outcomes, cause.patch)
    for subrefs in _subrefs_var.get():
        subrefs.update(state)
    if not state.done:
        raise _ChildrenRetry(delay=min(state.delays))
