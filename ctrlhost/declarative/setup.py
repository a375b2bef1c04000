"""The functions of `@plugin.setup`: their result is the plugin's state, and what follows a `yield` the clean-up."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import PluginLoadError
from ctrlhost.transport.steps import awaiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from ctrlhost.declarative.declaration import DeclaredFunction
    from ctrlhost.plugin.context import PluginContext

_END = object()


def call_setup(declared: DeclaredFunction, host: PluginContext) -> Any:
    """Call a function of the set-up; return what it returns or yields, and register what follows the `yield`.

    An `async def` runs on the plugin's event loop. PluginLoadError for a generator that ends without a `yield`.
    """
    started = declared.function(host)
    if inspect.iscoroutine(started):
        return _on_loop(host, started)
    if inspect.isgenerator(started):
        state = next(started, _END)
        rest: Callable[[], Any] = partial(next, started, _END)
    elif inspect.isasyncgen(started):
        rest = partial(_next_on_loop, host, started)
        state = rest()
    else:
        return started
    if state is _END:
        message = f"{declared.place}: {declared.name}: ended without a `yield`"
        raise PluginLoadError(host.name, message, hint="yield the state once, or None: the clean-up follows")

    def clean_up() -> None:
        if rest() is not _END:
            raise RuntimeError(
                f"{declared.place}: {declared.name} yielded twice; what follows the second is not called"
            )

    host.add_cleanup(clean_up)
    return state


def _next_on_loop(host: PluginContext, generator: AsyncIterator[Any]) -> Any:
    return _on_loop(host, anext(generator, _END))


def _on_loop(host: PluginContext, awaitable: Any) -> Any:
    """Return the result of an awaitable that runs on the plugin's event loop."""

    async def run() -> Any:
        awaiting.set("await the methods of `ctrlhost.AsyncClient(host.client)`")
        return await awaitable

    coroutine: Coroutine[Any, Any, Any] = run()
    return host.scope.loop.submit(coroutine).result()
