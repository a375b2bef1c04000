"""Kubernetes' users and rights in front of an ASGI application: a bearer token decides, as for the API server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from ctrlhost.server.reviews import Busy, Unanswered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from ctrlhost.server.reviews import Reviews

log = logging.getLogger("ctrlhost.server")

_BEARER = {"WWW-Authenticate": "Bearer"}


class Authenticated:
    """An application that only users see who may use the request's method, in lower case, on its path.

    It answers 401 without a valid token, 403 without the right, 429 when too many tokens come at once, and 503 while
    the API server cannot be asked.
    """

    def __init__(self, app: ASGIApp, reviews: Reviews) -> None:
        """Protect `app`."""
        self._app = app
        self._reviews = reviews
        #: Whether the log has said that the API server cannot be asked.
        self._said = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        refusal = await self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> ASGIApp | None:
        token = _token(Headers(scope=scope))
        if not token:
            return _answer(401, "a bearer token is required", "send `Authorization: Bearer TOKEN`", _BEARER)
        verb, path = scope["method"].lower(), scope["path"]
        try:
            user = await self._reviews.authenticate_token(token)
            if user is None:
                return _answer(401, "the API server rejects the token", "it may have expired", _BEARER)
            allowed = await self._reviews.may(user, verb, path)
        except Busy:
            return _answer(429, "too many tokens at once", "retry in a second", {"Retry-After": "1"})
        except Unanswered as error:
            self._say(error)
            return _answer(
                503, "the API server cannot be asked about the token", error.hint or "retry later", {"Retry-After": "5"}
            )
        self._said = False
        if allowed:
            return None
        return _answer(403, f"user {user.name} cannot {verb} {path}", "bind a ClusterRole with this nonResourceURL")

    def _say(self, error: Unanswered) -> None:
        if not self._said:
            self._said = True
            log.warning("requests are refused: the API server cannot be asked about their tokens: %s", error)
            if error.hint:
                log.warning("hint: %s", error.hint)


def _token(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _answer(status: int, error: str, hint: str, headers: Mapping[str, str] | None = None) -> ASGIApp:
    return JSONResponse({"error": error, "hint": hint}, status, headers)
