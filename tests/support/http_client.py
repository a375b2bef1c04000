"""A raw HTTP client for the tests, with watches line by line."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import urllib3

from tests.support.waiting import eventually

JSON = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Answer:
    """The response to a request."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.data

    def json(self) -> Any:
        return json.loads(self.body)

    def expect(self, *statuses: int) -> Any:
        assert self.status in statuses, (self.status, self.body[:2000])
        return self.json() if self.body[:1] in (b"{", b"[") else self.body

    def fails(self, code: int, reason: str | None = None, field: str = "", cause: str = "") -> dict[str, Any]:
        """Check a failure Status; one of its causes must have `field` and `cause`."""
        assert self.status == code, (self.status, self.body[:2000])
        status: dict[str, Any] = self.json()
        assert (status["kind"], status["apiVersion"], status["status"], status["code"]) == (
            "Status",
            "v1",
            "Failure",
            code,
        )
        if reason is not None:
            assert status.get("reason", "") == reason, status
        if field or cause:
            causes = status.get("details", {}).get("causes", [])
            fitting = [c for c in causes if field in ("", c.get("field")) and cause in ("", c["reason"])]
            assert fitting, status
        return status

    @property
    def warnings(self) -> list[str]:
        return self.headers.getlist("warning") if "warning" in self.headers else []


class Events:
    """A watch: the status, the headers and an iterator of events."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.response = response
        self.status = response.status
        self.headers = response.headers
        self._lines = self._read()

    def _read(self) -> Iterator[dict[str, Any]]:
        rest = b""
        for chunk in self.response.stream(amt=65536, decode_content=False):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)
        assert not rest

    def next(self) -> dict[str, Any]:
        return next(self._lines)

    def take(self, count: int) -> list[dict[str, Any]]:
        return [self.next() for _ in range(count)]

    def types(self, count: int) -> list[str]:
        return [event["type"] for event in self.take(count)]

    def rest(self) -> list[dict[str, Any]]:
        """Return the events until the server ends the stream."""
        return list(self._lines)

    def close(self) -> None:
        self.response.close()


class Api:
    """A client without checks of its own."""

    def __init__(self, url: str, ca: str = "", token: str = "") -> None:
        self.url = url
        self.ca = ca
        self.token = token
        self._open: list[Events] = []
        context = ssl.create_default_context(cadata=ca) if ca else None
        self.pool = urllib3.PoolManager(ssl_context=context, retries=False, timeout=20.0, maxsize=8)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for events in self._open:
            events.close()
        self.pool.clear()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str | None = JSON,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        sent = dict(headers or {})
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if data is not None and content_type is not None:
            sent.setdefault("Content-Type", content_type)
        return Answer(self.pool.request(method, self._target(path, query), body=data, headers=sent))

    def _target(self, path: str, query: dict[str, Any]) -> str:
        text = urlencode({key: str(value) for key, value in query.items()})
        joint = "&" if "?" in path else "?"
        return f"{self.url}{path}{joint + text if text else ''}"

    def get(self, path: str, accept: str | None = None, **query: Any) -> Answer:
        return self.request("GET", path, headers={"Accept": accept} if accept else None, **query)

    def post(self, path: str, body: Any, **more: Any) -> Answer:
        return self.request("POST", path, body, **more)

    def put(self, path: str, body: Any, **more: Any) -> Answer:
        return self.request("PUT", path, body, **more)

    def patch(self, path: str, body: Any, content_type: str = MERGE, **more: Any) -> Answer:
        return self.request("PATCH", path, body, content_type=content_type, **more)

    def apply(self, path: str, body: Any, manager: str, **more: Any) -> Answer:
        return self.request("PATCH", path, body, content_type=APPLY, fieldManager=manager, **more)

    def delete(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self.request("DELETE", path, body, **more)

    def watch(self, path: str, accept: str | None = None, **query: Any) -> Events:
        headers = {"Authorization": f"Bearer {self.token}", **({"Accept": accept} if accept else {})}
        query = {"watch": "true", "timeoutSeconds": 25, **query}
        response = self.pool.request("GET", self._target(path, query), headers=headers, preload_content=False)
        events = Events(response)
        self._open.append(events)
        return events

    def revision(self, path: str) -> str:
        version: str = self.get(path).json()["metadata"]["resourceVersion"]
        return version

    def gone(self, path: str) -> bool:
        """Wait until the object is deleted."""
        return bool(eventually(lambda: self.get(path).status == 404))


def names(answer: Answer) -> list[str]:
    """Return the names of the items of a list."""
    return [item["metadata"]["name"] for item in answer.expect(200)["items"]]
