"""The client for `async def` reconcilers: the synchronous one, called on threads."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ctrlhost.client import Client


class AsyncClient:
    """Every method of `Client` under its own name, to be awaited; an iterator comes as a list.

    Each call runs on a thread of the loop's executor, so it is as safe as the synchronous client is.
    """

    def __init__(self, client: Client) -> None:
        """Wrap a client."""
        self._client = client

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Give the awaitable form of a method."""
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._client, name)
        if not callable(method):
            raise AttributeError(f"AsyncClient has methods only; `{name}` is none")

        @functools.wraps(method)
        async def call(*args: Any, **options: Any) -> Any:
            return await asyncio.to_thread(_whole, method, args, options)

        return call


def _whole(method: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call the method and read an iterator to its end, since each page is a request that would block the loop."""
    answer = method(*args, **options)
    return list(answer) if isinstance(answer, Iterator) else answer
