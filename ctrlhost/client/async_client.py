"""The client's verbs as coroutines: the steps of each verb, carried out on the event loop."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ctrlhost.client.client import Client
from ctrlhost.transport.steps import Send, carry_out_async, do_async, steps_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from kubernetes.client import ApiClient

    from ctrlhost.transport.steps import Pause, Steps

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Writes that continue although nobody waits for them any more.
_continuing: set[asyncio.Future[Any]] = set()


def _read(
    verb: Callable[Concatenate[Client, _P], _R],
) -> Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _R]]:
    @functools.wraps(verb)
    async def run(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await carry_out_async(steps_of(verb)(self.client, *args, **kwargs))

    return run


def _write(
    verb: Callable[Concatenate[Client, _P], _R],
) -> Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _R]]:
    @functools.wraps(verb)
    async def run(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await to_its_end(steps_of(verb)(self.client, *args, **kwargs))

    return run


async def to_its_end(steps: Steps[_R]) -> _R:
    """Carry out writes; a cancellation ends the wait for the one that was sent, and sends no further one."""
    cancelled = False

    async def do(step: Send | Pause) -> Any:
        if cancelled:
            raise asyncio.CancelledError
        return await do_async(step)

    task = asyncio.ensure_future(carry_out_async(steps, do))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        cancelled = True
        if not task.done():
            _continuing.add(task)
            task.add_done_callback(_ended)
        raise


def _ended(task: asyncio.Future[Any]) -> None:
    _continuing.discard(task)
    if not task.cancelled():
        # Nobody else asks for it.
        task.exception()


class AsyncClient:
    """The verbs of a `Client` for `async def` reconcilers; safe to use from several event loops.

    No call blocks the loop or needs a thread. Cancelling a read drops its connection; cancelling a write ends only the
    wait: the server may still execute it. A reconcile ends after the writes that it has cancelled.
    """

    def __init__(self, client: Client) -> None:
        """Call with the connections of `client`."""
        self.client = client

    def close(self) -> None:
        """Drop the idle connections; a later call opens new ones."""
        self.client.close()

    def official(self) -> ApiClient:
        """Return what `Client.official` does; its calls block, so await them by `asyncio.to_thread`."""
        return self.client.official()

    resource = _read(Client.resource)
    kinds = _read(Client.kinds)
    get = _read(Client.get)
    find = _read(Client.find)
    create = _write(Client.create)
    replace = _write(Client.replace)
    apply = _write(Client.apply)
    patch = _write(Client.patch)
    delete = _write(Client.delete)
    delete_collection = _write(Client.delete_collection)

    async def list(
        self, api_version: str, kind: str, namespace: str | None = None, **options: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Return the objects one by one, requested in pages; see `Client.list`."""
        token: str | None = None
        while True:
            steps = self.client.page_steps(api_version, kind, namespace, token, **options)
            page = await carry_out_async(steps)
            for item in page["items"]:
                yield item
            token = (page.get("metadata") or {}).get("continue") or None
            if token is None:
                return
