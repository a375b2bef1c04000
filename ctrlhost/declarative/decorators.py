"""The types of the decorators of `ctrlhost.Plugin`.

Of the signatures of `__call__`, mypy names the first and pyright the last one in their messages: both are that of a
`def`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from ctrlhost.controller.context import Context
    from ctrlhost.controller.index import Index
    from ctrlhost.declarative.async_context import AsyncContext
    from ctrlhost.declarative.controller import Controller
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.request import Result
    from ctrlhost.webhooks.admission import Admission

#: The struct of the reconciled kind, or `Object`.
K = TypeVar("K")
#: The plugin's settings.
S = TypeVar("S", covariant=True)
#: What the plugin's `setup` returns.
State = TypeVar("State", covariant=True)
#: The same of a host.
HostS = TypeVar("HostS")
HostState = TypeVar("HostState")
P = ParamSpec("P")
R = TypeVar("R")


class ControllerDecorator(Protocol[K, S, State]):
    """Takes a `def` or an `async def` of `(ctx, obj)`."""

    @overload
    def __call__(
        self, function: Callable[[Context[K, S, State], K], Result | None], /
    ) -> Controller[K, Result | None]: ...
    @overload
    def __call__(
        self, function: Callable[[AsyncContext[K, S, State], K], Coroutine[object, object, Result | None]], /
    ) -> Controller[K, Coroutine[object, object, Result | None]]: ...
    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self, function: Callable[[Context[K, S, State], K], Result | None], /
    ) -> Controller[K, Result | None]: ...


class FinalizerDecorator(Protocol[K, S, State]):
    """Takes a `def` or an `async def` of `(ctx, obj)`, and returns it; a unit test may call it with any context."""

    @overload
    def __call__(
        self, function: Callable[[Context[K, S, State], K], Result | None], /
    ) -> Callable[[Any, K], Result | None]: ...
    @overload
    def __call__(
        self, function: Callable[[AsyncContext[K, S, State], K], Coroutine[object, object, Result | None]], /
    ) -> Callable[[Any, K], Coroutine[object, object, Result | None]]: ...
    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self, function: Callable[[Context[K, S, State], K], Result | None], /
    ) -> Callable[[Any, K], Result | None]: ...


class GoneDecorator(Protocol[K, S, State]):
    """Takes a `def` or an `async def` of `(ctx, obj)`, where `obj` may be None."""

    @overload
    def __call__(
        self, function: Callable[[Context[K, S, State], K | None], Result | None], /
    ) -> Controller[K | None, Result | None]: ...
    @overload
    def __call__(
        self, function: Callable[[AsyncContext[K, S, State], K | None], Coroutine[object, object, Result | None]], /
    ) -> Controller[K | None, Coroutine[object, object, Result | None]]: ...
    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self, function: Callable[[Context[K, S, State], K | None], Result | None], /
    ) -> Controller[K | None, Result | None]: ...


class HostDecorator(Protocol[HostS, HostState]):
    """Takes a function whose first argument is the host, and returns it."""

    def __call__(
        self, function: Callable[Concatenate[PluginContext[HostS, HostState], P], R], /
    ) -> Callable[Concatenate[PluginContext[HostS, HostState], P], R]:
        """Return the function."""


class IndexDecorator(Protocol[K]):
    """Takes an index function."""

    def __call__(self, function: Callable[[K], Iterable[str] | None], /) -> Index[K]:
        """Return the index."""


class ValidateDecorator(Protocol[K, S, State]):
    """Takes a `def` or an `async def` of `(ctx, new, old)`, and returns it."""

    @overload
    def __call__(
        self, function: Callable[[Admission[K, S, State], K | None, K | None], None], /
    ) -> Callable[[Any, K | None, K | None], None]: ...
    @overload
    def __call__(
        self, function: Callable[[Admission[K, S, State], K | None, K | None], Coroutine[object, object, None]], /
    ) -> Callable[[Any, K | None, K | None], Coroutine[object, object, None]]: ...
    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self, function: Callable[[Admission[K, S, State], K | None, K | None], None], /
    ) -> Callable[[Any, K | None, K | None], None]: ...


class MutateDecorator(Protocol[K, S, State]):
    """Takes a `def` or an `async def` of `(ctx, new, old)`, and returns it."""

    @overload
    def __call__(
        self, function: Callable[[Admission[K, S, State], K, K | None], K | Mapping[str, Any] | None], /
    ) -> Callable[[Any, K, K | None], K | Mapping[str, Any] | None]: ...
    @overload
    def __call__(
        self,
        function: Callable[
            [Admission[K, S, State], K, K | None], Coroutine[object, object, K | Mapping[str, Any] | None]
        ],
        /,
    ) -> Callable[[Any, K, K | None], Coroutine[object, object, K | Mapping[str, Any] | None]]: ...
    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self, function: Callable[[Admission[K, S, State], K, K | None], K | Mapping[str, Any] | None], /
    ) -> Callable[[Any, K, K | None], K | Mapping[str, Any] | None]: ...
