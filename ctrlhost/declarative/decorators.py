"""The types of the decorators of `ctrlhost.Plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from ctrlhost.controller.context import Context
    from ctrlhost.controller.index import Index
    from ctrlhost.declarative.async_context import AsyncContext
    from ctrlhost.declarative.controller import Controller
    from ctrlhost.request import Result

#: The struct of the reconciled kind, or `Object`.
K = TypeVar("K")
#: The plugin's settings.
S = TypeVar("S", covariant=True)


class ControllerDecorator(Protocol[K, S]):
    """Takes a `def` or an `async def` of `(ctx, obj)`."""

    @overload
    def __call__(
        self, function: Callable[[AsyncContext[K, S], K], Coroutine[object, object, Result | None]], /
    ) -> Controller[K, Coroutine[object, object, Result | None]]: ...
    @overload
    def __call__(self, function: Callable[[Context[K, S], K], Result | None], /) -> Controller[K, Result | None]: ...


class FinalizerDecorator(Protocol[K, S]):
    """Takes a `def` or an `async def` of `(ctx, obj)`, and returns it; a unit test may call it with any context."""

    @overload
    def __call__(
        self, function: Callable[[AsyncContext[K, S], K], Coroutine[object, object, Result | None]], /
    ) -> Callable[[Any, K], Coroutine[object, object, Result | None]]: ...
    @overload
    def __call__(
        self, function: Callable[[Context[K, S], K], Result | None], /
    ) -> Callable[[Any, K], Result | None]: ...


class GoneDecorator(Protocol[K, S]):
    """Takes a `def` or an `async def` of `(ctx, obj)`, where `obj` may be None."""

    @overload
    def __call__(
        self, function: Callable[[AsyncContext[K, S], K | None], Coroutine[object, object, Result | None]], /
    ) -> Controller[K | None, Coroutine[object, object, Result | None]]: ...
    @overload
    def __call__(
        self, function: Callable[[Context[K, S], K | None], Result | None], /
    ) -> Controller[K | None, Result | None]: ...


class IndexDecorator(Protocol[K]):
    """Takes an index function."""

    def __call__(self, function: Callable[[K], Iterable[str] | None], /) -> Index[K]:
        """Return the index."""
