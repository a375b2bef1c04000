"""Asks the API server who a token belongs to, and what its user may do, and keeps the answers for a while.

The same times as in Kubernetes' delegated authentication and authorization.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from ctrlhost.errors import CtrlhostError, Forbidden
from ctrlhost.transport.interface import HttpRequest
from ctrlhost.transport.responses import decode_object

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping

    from ctrlhost.clock import Clock
    from ctrlhost.transport.interface import Transport

T = TypeVar("T")

#: Seconds for which answers are kept.
TOKEN_KEPT, ALLOW_KEPT, DENY_KEPT = 60.0, 300.0, 30.0
#: Answers of each kind that are kept at most.
KEPT = 1000
#: Requests of each kind to the API server, per second and at once.
RATE = 10
#: Seconds that the API server may take.
_TIMEOUT = 5.0

_REVIEWS = {
    "TokenReview": ("authentication.k8s.io/v1", "tokenreviews"),
    "SubjectAccessReview": ("authorization.k8s.io/v1", "subjectaccessreviews"),
}


class Busy(Exception):
    """Too many questions at once; the API server was not asked."""


class Unanswered(Exception):
    """The API server did not answer; `hint` says what to do if that is known."""

    def __init__(self, reason: str, hint: str = "") -> None:
        """Set the texts, which contain no token."""
        super().__init__(reason)
        self.hint = hint


class User(NamedTuple):
    """The user of a token."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...]


class Reviews:
    """The questions and answers of one listener. For use on one event loop."""

    def __init__(self, transport: Callable[[], Transport | None], clock: Clock) -> None:
        """Ask through the transport of the host's own account, None before it has one."""
        self._transport = transport
        self._users: _Answers[User | None] = _Answers(clock)
        self._rights: _Answers[bool] = _Answers(clock)
        #: Tokens are kept only as digests, which mean nothing elsewhere.
        self._secret = os.urandom(32)

    async def authenticate_token(self, token: str) -> User | None:
        """Return the user of a token, None for an invalid one. Raises Busy and Unanswered."""

        async def ask() -> tuple[User | None, float]:
            status = await self._review("TokenReview", {"token": token})
            user = status.get("user") or {}
            if not status.get("authenticated") or not user.get("username"):
                return None, TOKEN_KEPT
            extra = tuple(sorted((name, tuple(values)) for name, values in (user.get("extra") or {}).items()))
            groups = tuple(user.get("groups") or ())
            return User(user["username"], user.get("uid") or "", groups, extra), TOKEN_KEPT

        digest = hashlib.blake2b(token.encode("utf-8", "surrogateescape"), key=self._secret).digest()
        return await self._users.get(digest, ask)

    async def may(self, user: User, verb: str, path: str) -> bool:
        """Return whether the user may use this verb on a path. Raises Busy and Unanswered."""

        async def ask() -> tuple[bool, float]:
            spec: dict[str, Any] = {"user": user.name, "nonResourceAttributes": {"path": path, "verb": verb}}
            optional = {"uid": user.uid, "groups": user.groups, "extra": dict(user.extra)}
            spec |= {name: value for name, value in optional.items() if value}
            allowed = (await self._review("SubjectAccessReview", spec)).get("allowed") is True
            return allowed, ALLOW_KEPT if allowed else DENY_KEPT

        return await self._rights.get((user, verb, path), ask)

    async def _review(self, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the status of a review; Unanswered if there is none."""
        api_version, plural = _REVIEWS[kind]
        transport = self._transport()
        if transport is None:
            raise Unanswered("the host has not started yet")
        path = f"/apis/{api_version}/{plural}"
        body = msgspec.json.encode({"apiVersion": api_version, "kind": kind, "spec": spec})
        headers = {"Content-Type": "application/json"}
        request = HttpRequest("POST", path, body=body, headers=headers, timeout=_TIMEOUT)
        try:
            return decode_object(await transport.send_async(request), request.what).get("status") or {}
        except Forbidden as error:
            raise Unanswered(str(error), "bind the ClusterRole system:auth-delegator to the host's account") from error
        except CtrlhostError as error:
            raise Unanswered(str(error)) from error


class _Answers(Generic[T]):
    """The answers to one kind of question. The same question of several requests at one time is asked once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: With the time until which each is kept, in the order in which they came.
        self._kept: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[T]] = {}
        #: Requests that may be sent now, and when that was counted.
        self._tokens, self._counted_at = float(RATE), clock.now()

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """Return the kept answer, or ask and keep the answer for as long as `ask` says; Busy if asked too often."""
        kept = self._kept.get(question)
        if kept is not None and self._clock.now() < kept[0]:
            return kept[1]
        task = self._pending.get(question)
        if task is None:
            self._take(known=kept is not None and bool(kept[1]))
            task = self._pending[question] = asyncio.ensure_future(self._ask(question, ask))
            task.add_done_callback(lambda done: self._over(question, done))
        # Others may wait for the answer when this request is cancelled.
        return await asyncio.shield(task)

    async def _ask(self, question: Hashable, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        answer, seconds = await ask()
        # A renewed answer is not the first one to be dropped.
        self._kept.pop(question, None)
        if len(self._kept) >= KEPT:
            self._kept.popitem(last=False)
        self._kept[question] = (self._clock.now() + seconds, answer)
        return answer

    def _over(self, question: Hashable, task: asyncio.Task[T]) -> None:
        del self._pending[question]
        if not task.cancelled():
            # Whoever asked may be gone.
            task.exception()

    def _take(self, *, known: bool) -> None:
        now = self._clock.now()
        self._tokens = min(RATE, self._tokens + (now - self._counted_at) * RATE)
        self._counted_at = now
        # One is left for questions that were answered with yes before, whatever else is asked.
        if self._tokens < (1 if known else 2):
            raise Busy
        self._tokens -= 1
