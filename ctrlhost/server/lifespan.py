"""The lifespan of an ASGI application: it learns when its server starts and stops, if it wants to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

#: The version of ASGI that servers speak.
ASGI = {"version": "3.0", "spec_version": "2.3"}


class Lifespan:
    """That of one application. Belongs to one event loop."""

    def __init__(self, app: ASGIApp) -> None:
        """Prepare."""
        #: What the application keeps for its requests.
        self.state: dict[str, Any] = {}
        self._app = app
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        self._failed = False

    async def start(self) -> None:
        """Notify the application, and wait until it is ready; RuntimeError if it says that it failed."""
        self._task = asyncio.create_task(self._run())
        await self._tell("startup")
        if self._failed:
            raise RuntimeError("the application failed to start")

    async def stop(self) -> None:
        """Notify the application, and wait for it."""
        if self._task is not None and not self._task.done():
            await self._tell("shutdown")

    async def _tell(self, what: str) -> None:
        self._answered.clear()
        self._messages.put_nowait({"type": f"lifespan.{what}"})
        await self._answered.wait()

    async def _run(self) -> None:
        try:
            await self._app({"type": "lifespan", "asgi": ASGI, "state": self.state}, self._messages.get, self._send)
        except Exception:  # noqa: BLE001, S110 - an application without a lifespan raises
            pass
        finally:
            self._answered.set()

    async def _send(self, message: Message) -> None:
        self._failed = message["type"] == "lifespan.startup.failed"
        self._answered.set()
