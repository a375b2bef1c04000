"""Requests to the API of a running host."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.json_schema import problems

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/reference/status.schema.json").read_text())


def get(host: Any, path: str) -> tuple[int, Any]:
    """Return the status and the JSON at a path below `/api/v1` of a host under test, or of a host process."""
    address = host.host.address if hasattr(host, "host") else host.address
    base = address if address.startswith("http") else f"http://{address}"
    try:
        with urllib.request.urlopen(f"{base}/api/v1{path}", timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def status_of(host: Any) -> Any:
    """Return the status, which fits the schema."""
    code, status = get(host, "/status")
    assert code == 200
    assert not problems(status, SCHEMA)
    return status


def key_of(host: Any, controller: str, key: str) -> Any:
    """Return the status of a key, which fits the schema."""
    code, status = get(host, f"/keys/{controller}?key={key}")
    assert code == 200, status
    assert not problems(status, {"$ref": "#/$defs/KeyStatus"}, SCHEMA)
    return status


def page_of(host: Any, controller: str, **query: Any) -> Any:
    """Return a page of a queue, which fits the schema."""
    text = "&".join(f"{name}={value}" for name, value in query.items())
    code, page = get(host, f"/queues/{controller}?{text}")
    assert code == 200, page
    assert not problems(page, {"$ref": "#/$defs/QueuePage"}, SCHEMA)
    return page
