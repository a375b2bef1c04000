"""Requests through the fault proxy."""

from __future__ import annotations

import json
from typing import Any

from ctrlhost import Client

MAPS = "/api/v1/namespaces/default/configmaps"


def list_maps(client: Client, timeout: float = 5.0) -> list[str]:
    """List the names of the ConfigMaps."""
    return [obj["metadata"]["name"] for obj in client.list("v1", "ConfigMap", "default", timeout=timeout)]


class Watch:
    """A watch of the ConfigMaps of a namespace, read frame by frame."""

    def __init__(self, client: Client, idle: float = 5.0, **query: Any) -> None:
        self.stream = client.transport.stream(MAPS, query={"watch": "1", **query}, timeout=5, idle=idle)
        self._rest = b""

    def frame(self) -> Any:
        while b"\n" not in self._rest:
            piece = self.stream.read()
            if not piece:
                return None
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def names(self, count: int) -> list[str]:
        return [self.frame()["object"]["metadata"]["name"] for _ in range(count)]
