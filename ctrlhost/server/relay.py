"""ASGI applications that run on another event loop than their server's.

The server's loop answers for an application that does not: what a plugin's page blocks is the plugin's own loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Protocol

from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ctrlhost.entries import Entry

    #: Opens the entry of a request; its argument is called, on any thread, when the request is overdue.
    OpenEntry = Callable[[Callable[[Entry], None]], Entry]

log = logging.getLogger("ctrlhost.server")

_REASONS = {
    500: "the page failed",
    502: "the page sent no valid answer",
    503: "the page is about to be removed",
    504: "the page did not answer in time",
}


class Loop(Protocol):
    """An event loop on a thread of its own."""

    @property
    def thread(self) -> int:
        """The identifier of the thread."""

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Schedule a call on the thread; RuntimeError if the loop has ended."""


def relayed(app: ASGIApp, loop: Loop, what: str = "", open_entry: OpenEntry | None = None) -> ASGIApp:
    """Return an application that runs `app`, which logs call `what`, on `loop`.

    With `open_entry`, each request is an entry from its arrival to the first byte of its answer; if that is overdue,
    the client gets 504. An application that raises before this byte answers 500, one that sends nothing or two heads
    502. It is cancelled when the client leaves or got such an answer.
    """

    async def relay(scope: Scope, receive: Receive, send: Send) -> None:
        await _Exchange(app, scope, receive, send, loop, what).run(open_entry if scope["type"] == "http" else None)

    return relay


class _Exchange:
    """One request, or the lifespan of an application. Its members belong to the server's loop."""

    def __init__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, loop: Loop, what: str) -> None:
        self._app = app
        self._scope = scope
        self._receive = receive
        self._send = send
        self._other = loop
        self._what = what
        self._here = asyncio.get_running_loop()
        self._entry: Entry | None = None
        #: The next message for the application. One is read ahead, to notice when the client leaves.
        self._inbox: asyncio.Queue[Message] = asyncio.Queue(1)
        #: The head of the answer until the first part of its body comes.
        self._head: Message | None = None
        self._answered = self._complete = False
        #: The result is the status of an answer that the server gives; 0 for none.
        self._over: asyncio.Future[int] = self._here.create_future()
        #: Belongs to the other loop.
        self._task: asyncio.Task[None] | None = None
        self._cancelled = self._app_ended = False

    async def run(self, open_entry: OpenEntry | None) -> None:
        """Run the application until it ends, or nobody waits for its answer."""
        if open_entry is not None:
            self._entry = open_entry(lambda _entry: self._finish_soon(504))
            self._entry.begin(self._scope["path"], thread=self._other.thread)
        reading = self._here.create_task(self._read())
        try:
            try:
                self._other.call(self._begin)
            except RuntimeError:
                self._end_entry()
                self._finish(503)
            status = await self._over
        finally:
            reading.cancel()
            if not self._app_ended:
                with contextlib.suppress(RuntimeError):
                    self._other.call(self._cancel)
        if status == 502 and self._answered and not self._complete:
            log.error("%s ended before its answer at %s", self._what, self._scope["path"])
        if status and not self._answered and self._scope["type"] == "http":
            self._answered = True
            if status == 502:
                log.error("%s sent no valid answer at %s", self._what, self._scope["path"])
            response = PlainTextResponse(f"{_REASONS[status]}\n", status)
            await response(self._scope, self._receive, self._send)

    def _finish(self, status: int) -> None:
        if not self._over.done():
            self._over.set_result(status)

    def _finish_soon(self, status: int) -> None:
        """End the exchange; callable from any thread."""
        with contextlib.suppress(RuntimeError):
            self._here.call_soon_threadsafe(self._finish, status)

    async def _read(self) -> None:
        """Read the request, and notice that the client leaves."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect" and not self._complete:
                self._finish(0)
            await self._inbox.put(message)
            if message["type"] == "http.disconnect":
                return

    async def _next(self) -> Message:
        message = await self._inbox.get()
        if message["type"] == "http.disconnect":
            self._inbox.put_nowait(message)
        return message

    async def _forward(self, message: MutableMapping[str, Any]) -> None:
        """Send a message of the application to the client."""
        if self._over.done():
            raise OSError("nobody waits for this answer any more")
        if message["type"] == "http.response.start":
            self._finish(502)
            raise RuntimeError("the head of the answer was sent twice")
        if self._head is not None:
            if self._entry is not None and not self._entry.end():
                self._finish(504)
                raise OSError("the answer came too late")
            self._answered, head, self._head = True, self._head, None
            await self._send(head)
        self._complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    # On the other loop.

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run_app())
        self._task.add_done_callback(self._ended)
        if self._entry is not None:
            self._entry.task = self._task
        if self._cancelled:
            self._task.cancel()

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def _run_app(self) -> None:
        status = 502
        try:
            await self._app(self._scope, self._called(self._next), self._send_from_app)
        except asyncio.CancelledError:
            # Its loop ends, or nobody waits for the answer.
            status = 503
        except BaseException as error:
            # An application without a lifespan raises, too.
            if not self._cancelled and not self._over.done() and self._scope["type"] == "http":
                status = 500
                log.error("%s failed at %s: %s", self._what, self._scope["path"], _text(error), exc_info=error)
        self._app_ended = True
        self._finish_soon(status)

    async def _send_from_app(self, message: MutableMapping[str, Any]) -> None:
        # The head waits here for the first part of the body, which saves a way from loop to loop and back.
        if message["type"] == "http.response.start" and self._head is None and not self._answered:
            self._head = message
        else:
            await self._called(self._forward)(message)

    def _called(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return the function, which runs on the server's loop, for callers on the other one."""

        async def call(*args: Any) -> Any:
            running: Any = function(*args)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(running, self._here))

        return call

    def _ended(self, _task: asyncio.Task[None]) -> None:
        self._end_entry()
        self._finish_soon(502)

    def _end_entry(self) -> None:
        if self._entry is not None:
            self._entry.end()
            self._entry.close()


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    except BaseException:  # noqa: BLE001 - its `__str__` is the plugin's code, too
        return type(error).__name__
