"""Watches from a version that the server has not reached, as after a restore of its storage."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from ctrlhost.client import HttpRequest

PATH = "/api/v1/namespaces/default/configmaps"


def watched(control_plane: Any, version: int) -> list[str]:
    """Return the types of the frames of a watch that ends by itself; bookmarks come two seconds before."""
    query = {"watch": "1", "resourceVersion": str(version), "allowWatchBookmarks": "true", "timeoutSeconds": "4"}
    stream = control_plane.client.transport.open(HttpRequest("GET", PATH, query, timeout=30.0))
    pieces: Iterable[bytes] = iter(stream.read, b"")
    return [json.loads(line)["type"] for line in b"".join(pieces).splitlines()]


@pytest.mark.behaviour("findings3/NC9")
def test_a_watch_from_a_future_version_is_silent_without_bookmarks(control_plane: Any) -> None:
    listed = control_plane.client.transport.send(HttpRequest("GET", PATH, {"limit": "1"}, timeout=30.0))
    version = int(json.loads(listed.body)["metadata"]["resourceVersion"])
    assert watched(control_plane, version + 1_000_000) == []
