"""The client of an `async def`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.client import AsyncClient
from ctrlhost.declarative.awaits import remembers_calls

if TYPE_CHECKING:
    from ctrlhost.declarative.awaits import Calls


@remembers_calls("ctx.client")
class RunClient(AsyncClient):
    """The client of one run of an `async def`."""

    def __init__(self, client: AsyncClient, calls: Calls) -> None:
        """Call with the connections of `client`."""
        super().__init__(client.client)
        self._calls = calls
