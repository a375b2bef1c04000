"""The client's verbs as coroutines. Each runs the synchronous verb in a thread, so there is one implementation."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ctrlhost.client.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _coroutine(
    verb: Callable[Concatenate[Client, _P], _R],
) -> Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _R]]:
    @functools.wraps(verb)
    async def run(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self._in_thread(functools.partial(verb, self.client, *args, **kwargs))

    return run


def _async_pages(
    verb: Callable[Concatenate[Client, _P], Iterator[dict[str, Any]]],
) -> Callable[Concatenate[AsyncClient, _P], AsyncIterator[dict[str, Any]]]:
    @functools.wraps(verb)
    async def run(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncIterator[dict[str, Any]]:
        pages = verb(self.client, *args, **kwargs)
        while (page := await self._in_thread(lambda: next(pages, None))) is not None:
            for item in page["items"]:
                yield item

    return run


class AsyncClient:
    """The verbs of a `Client` for `async def` reconcilers; safe to use from several event loops.

    Cancelling a call ends only the wait, not the request: the server may still execute a write.
    """

    def __init__(self, client: Client, *, max_workers: int = 32) -> None:
        """Run the calls of `client` in up to `max_workers` threads, which start on demand."""
        self.client = client
        self._executor = ThreadPoolExecutor(max_workers=max_workers, thread_name_prefix="ctrlhost-client")

    def over(self, client: Client) -> AsyncClient:
        """Return the coroutines of another client, on the threads of this one."""
        other = copy.copy(self)
        other.client = client
        return other

    async def _in_thread(self, call: Callable[[], _R]) -> _R:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._executor, functools.partial(context.run, call))

    def close(self) -> None:
        """End the threads after their running calls; does not wait for them."""
        self._executor.shutdown(wait=False)

    resource = _coroutine(Client.resource)
    get = _coroutine(Client.get)
    find = _coroutine(Client.find)
    create = _coroutine(Client.create)
    replace = _coroutine(Client.replace)
    apply = _coroutine(Client.apply)
    patch = _coroutine(Client.patch)
    delete = _coroutine(Client.delete)
    delete_collection = _coroutine(Client.delete_collection)
    list = _async_pages(Client.list_pages)
