"""What answers at a path of the webhook listener: a plugin of this process, or the process of an isolated one."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctrlhost.host.webhooks.pool import QUEUE, THREADS, Ended, Full, WebhookPool
from ctrlhost.server.webhooks import IN_CHILD
from ctrlhost.webhooks.envelope import InvalidReview
from ctrlhost.webhooks.review import Answer, WebhookFailed, answer, answer_async
from ctrlhost.webhooks.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from starlette.types import ASGIApp, Message

    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.webhooks.conversion import Converters

log = logging.getLogger("ctrlhost.host")

#: Seconds that the API server waits for a conversion.
CONVERSION_TIMEOUT = 30.0
#: Seconds before the API server's own time is over at which a call is given up.
_SPARE = 0.5
_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"


class Reply(NamedTuple):
    """An answer to the API server, which shows a body that is text."""

    status: int
    body: bytes
    denied: bool = False

    @property
    def media(self) -> str:
        """The media type of the body."""
        return _JSON if self.status == 200 else _TEXT


def refusal(status: int, text: str) -> Reply:
    """Return an answer with which the failure policy of the webhook decides."""
    return Reply(status, f"{text}\n".encode())


class PluginWebhooks:
    """What the endpoints of one plugin share, from its set-up until it ends."""

    def __init__(self, context: PluginContext) -> None:
        """Start without threads."""
        self.context = context
        self.pool = WebhookPool(context.name, context.scope.entries)
        self.ended = False
        #: The calls on the plugin's event loop; for the listener's thread.
        self.on_loop = 0

    def unread(self) -> list[str]:
        """Return the caches that the webhooks read, and that are not full yet.

        A controller that waits for a kind or a right keeps no webhook from its work, unless that names the kind.
        """
        context = self.context
        controllers = [part.name for part in context.controllers if not (part.has_synced() or part.waiting())]
        return controllers + [str(informer.key) for informer in context.informers if not informer.has_synced]

    def end(self) -> None:
        """Answer nothing more."""
        self.ended = True
        self.pool.end()


class LocalEndpoint:
    """Calls one webhook, or converts the objects of one kind, in this process."""

    def __init__(self, plugin: PluginWebhooks, webhook: Webhook | Converters, *, check_stability: bool) -> None:
        """Prepare; with `check_stability` a mutator is called again with its own result."""
        admission = webhook if isinstance(webhook, Webhook) else None
        self.plugin = plugin.context.name
        self.path = webhook.path
        self.timeout = admission.timeout if admission is not None else CONVERSION_TIMEOUT
        self._owner = plugin
        self._seconds = self.timeout - _SPARE
        self._check = check_stability
        self._is_async = admission is not None and admission.is_async
        self._webhook = webhook

    async def answer(self, body: bytes) -> Reply:
        """Return the answer to a review, in time."""
        try:
            return await self._answer(body)
        except Full:
            text = f"{THREADS} webhooks of plugin {self.plugin} run, and {QUEUE} requests wait for them"
            return refusal(429, text)
        except TimeoutError:
            text = f"{self.path} of plugin {self.plugin} has not answered within {self._seconds:g} s"
            return refusal(504, text)
        except InvalidReview as error:
            return refusal(400, error.message)
        except WebhookFailed as error:
            return self._failed(error.message, error.__cause__)
        except _CallFailed as error:
            return self._failed(f"plugin {self.plugin}: {self.path} failed; the log of the host has more", error.cause)

    def _failed(self, text: str, cause: BaseException | None) -> Reply:
        log.error("%s", text, exc_info=cause, extra={"plugin": self.plugin})
        return refusal(500, text)

    async def _answer(self, body: bytes) -> Reply:
        down = refusal(503, f"plugin {self.plugin} does not run now")
        if self._owner.ended:
            return down
        try:
            calling = self._begin(body)
            answered: Answer = await asyncio.wait_for(asyncio.wrap_future(calling), self._seconds)
        except Ended:
            return down
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The plugin's event loop has ended.
            return down
        return Reply(200, answered.body, answered.denied)

    def _begin(self, body: bytes) -> Future[Any]:
        owner = self._owner
        if not self._is_async:
            return owner.pool.submit(self.path, lambda: self._call(body), self._seconds)
        # A task that ignores its cancellation runs on.
        if max(owner.on_loop, owner.pool.load().running) >= THREADS + QUEUE:
            raise Full
        try:
            calling = owner.context.scope.loop.submit(self._call_async(body))
        except RuntimeError:
            raise Ended from None
        owner.on_loop += 1
        here = asyncio.get_running_loop()

        def leave(_done: object) -> None:
            # The listener may have ended before.
            with suppress(RuntimeError):
                here.call_soon_threadsafe(self._left)

        calling.add_done_callback(leave)
        return calling

    def _left(self) -> None:
        self._owner.on_loop -= 1

    def _call(self, body: bytes) -> Answer:
        webhook = self._webhook
        with _contained():
            if not isinstance(webhook, Webhook):
                return Answer(webhook.answer(body), denied=False)
            return answer(webhook, body, self._owner.context, check_stability=self._check)

    async def _call_async(self, body: bytes) -> Answer:
        webhook: Any = self._webhook
        with self._owner.pool.running(self.path, self._seconds, time.monotonic()) as entry, _contained():
            entry.task = asyncio.current_task()
            return await answer_async(webhook, body, self._owner.context, check_stability=self._check)


class _CallFailed(Exception):
    """What surrounds the function of a webhook has failed, such as the plugin's checks of a struct."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


@contextmanager
def _contained() -> Iterator[None]:
    try:
        yield
    except (InvalidReview, WebhookFailed, asyncio.CancelledError):
        raise
    except BaseException as error:  # noqa: BLE001 - it may leave the loop of the listener, too
        raise _CallFailed(error) from None


class _Response(msgspec.Struct):
    allowed: bool = True


class _Review(msgspec.Struct):
    response: _Response


_review = msgspec.json.Decoder(_Review)


class ChildEndpoint:
    """Passes requests on to the process of an isolated plugin."""

    def __init__(self, plugin: str, path: str, timeout: float, app: ASGIApp) -> None:
        """Ask `app`, which answers from the process."""
        self.plugin = plugin
        self.path = path
        self.timeout = timeout
        self._app = app

    async def answer(self, body: bytes) -> Reply:
        """Return the answer of the process, or why there is none."""
        path = f"{IN_CHILD}{self.path}"
        headers = [(b"content-type", _JSON.encode()), (b"content-length", str(len(body)).encode())]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "scheme": "https",
            "client": None,
        }
        exchange = _Exchange(body)
        await self._app(scope, exchange.receive, exchange.send)
        return exchange.reply(self.plugin)


class _Exchange:
    """A request whose body is there, and its answer as one."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._status = 502
        self._answer = b""

    async def receive(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            # Nobody leaves: the answer is in time.
            await asyncio.Event().wait()
        return {"type": "http.request", "body": body or b"", "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            self._answer += message.get("body", b"")

    def reply(self, plugin: str) -> Reply:
        """Return the answer as the API server gets it."""
        match self._status:
            case 200:
                try:
                    denied = not _review.decode(self._answer).response.allowed
                except msgspec.DecodeError:
                    denied = False
                return Reply(200, self._answer, denied)
            case 503:
                return refusal(503, f"the process of plugin {plugin} is down")
            case 504:
                return refusal(504, f"the process of plugin {plugin} did not answer in time")
            case status:
                return Reply(status, self._answer)
