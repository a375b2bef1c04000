"""The open connections of a sandbox as a whole: closed when they take too long, and at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctrlhost.sandbox.http.http import Connection


async def sweep(connections: Collection[Connection]) -> None:
    """Close what takes too long, about once a second, until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1)
        now = loop.time()
        for connection in list(connections):
            connection.sweep(now)


async def close(connections: Collection[Connection]) -> None:
    """End running streams properly, then cut what is left."""
    for connection in list(connections):
        connection.shut()
    # One turn of the loop lets the last bytes out.
    await asyncio.sleep(0.02)
    for connection in list(connections):
        connection.abort()
