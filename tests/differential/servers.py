"""The two servers, and the compared part of their answers."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from urllib3 import HTTPResponse
from urllib3.exceptions import ProtocolError

from tests.support.http_client import Answer, Api

VERSION, UID = "@resourceVersion", "@uid"
"""Texts in a body that stand for each server's own value."""
NO_ANSWER = 599
"""The status code that stands for a closed connection."""
_BUSY = (429, 503)
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request, of which each server gets its own copy."""

    verb: str
    kind: str
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    media: str = ""
    body: Any = None

    def text(self) -> str:
        """Return the request in one line of JSON."""
        line = {"verb": self.verb, "kind": self.kind, "method": self.method, "path": self.path}
        more = {"query": self.query, "media": self.media, "body": self.body}
        return json.dumps(line | {key: value for key, value in more.items() if value not in ("", None, {})})

    @staticmethod
    def read(text: str) -> Request:
        """Return the request of a line that `text` returned."""
        return Request(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The compared part of an answer."""

    code: int
    reason: str
    fields: frozenset[str]

    def __str__(self) -> str:
        return " ".join(part for part in (str(self.code), self.reason) if part)


def outcome(answer: Answer) -> Outcome:
    """Return what is compared of an answer."""
    if answer.status < 400:
        return Outcome(answer.status, "", frozenset())
    try:
        status = answer.json()
    except ValueError:
        return Outcome(answer.status, "", frozenset())
    causes = (status.get("details") or {}).get("causes") or ()
    fields = frozenset(pattern(cause.get("field", "")) for cause in causes)
    return Outcome(answer.status, status.get("reason", ""), fields)


def pattern(name: str) -> str:
    """Return a field with `*` for positions and keys."""
    return re.sub(r"\[[^\]]*\]", "[*]", name)


class Servers:
    """Sends each request to both servers at the same time."""

    def __init__(self, left: Api, right: Api) -> None:
        self.apis = (left, right)
        self._pool = ThreadPoolExecutor(2)

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    def send(self, request: Request) -> tuple[Answer, Answer]:
        """Return both answers."""
        return self._both([self._pool.submit(_sent, api, request) for api in self.apis])

    def outcomes(self, request: Request) -> tuple[Outcome, Outcome]:
        """Return what is compared of both answers."""
        left, right = self.send(request)
        return outcome(left), outcome(right)

    def get(self, path: str) -> tuple[Answer, Answer]:
        """Return both answers to a GET."""
        return self.send(Request("get", "", "GET", path))

    @staticmethod
    def _both(waiting: list[Future[Answer]]) -> tuple[Answer, Answer]:
        left, right = (future.result() for future in waiting)
        return left, right


def _sent(api: Api, request: Request) -> Answer:
    headers = {"Content-Type": request.media} if request.media else {}
    if api.token:
        headers["Authorization"] = f"Bearer {api.token}"
    body = None
    if request.body is not None:
        # Compact, as a server stores it: a real one compares some parts byte by byte.
        text = json.dumps(request.body, separators=(",", ":"))
        if VERSION in text or UID in text:
            text = _resolved(api, request, text)
        body = text.encode()
    url = f"{api.url}{quote(request.path)}" + (f"?{urlencode(request.query)}" if request.query else "")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            answer = Answer(api.pool.request(request.method, url, body=body, headers=headers))
        except ProtocolError:
            # A handler that panics closes the connection.
            return Answer(HTTPResponse(b"{}", status=NO_ANSWER))
        if answer.status not in _BUSY or time.monotonic() > deadline:
            return answer
        # The server does not announce when it is no longer busy, and its `Retry-After` counts whole seconds.
        time.sleep(0.05)


def _resolved(api: Api, request: Request, text: str) -> str:
    """Replace placeholders by the values of the stored object, or by those of none."""
    answer = api.get(quote(request.path.removesuffix("/status").removesuffix("/scale")))
    metadata = answer.json().get("metadata") or {} if answer.status == 200 else {}
    version, uid = metadata.get("resourceVersion") or "1", metadata.get("uid") or "0-0"
    return text.replace(VERSION, version).replace(UID, uid)
