"""All open connections of a sandbox: closed on time-outs and at shutdown."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctrlhost_sandbox.http.http import Connection


async def sweep(connections: Collection[Connection]) -> None:
    """Close connections that exceed their time-outs, checked about once a second, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1)
        now = loop.time()
        for connection in list(connections):
            connection.sweep(now)


async def close(connections: Collection[Connection]) -> None:
    """End streams properly, then abort the remaining connections."""
    for connection in list(connections):
        connection.shut()
    # One turn of the loop sends the last bytes.
    await asyncio.sleep(0.02)
    for connection in list(connections):
        connection.abort()
