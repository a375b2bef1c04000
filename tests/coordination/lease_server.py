"""Leases in memory: writes by compare-and-swap, watches that can stop, requests and answers that are lost."""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ctrlhost.coordination.fleet import FLEET
from ctrlhost.errors import AlreadyExists, Conflict, NotFound, TransportError


class LeaseServer:
    """The Leases of one namespace."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.clients: list[LeaseClient] = []
        #: Who sent what, in order, without reads.
        self.writes: list[tuple[str, str, str]] = []
        self.conflicts: list[tuple[str, str]] = []
        self._versions = itertools.count(1)

    def store(self, lease: dict[str, Any]) -> dict[str, Any]:
        lease = copy.deepcopy(lease)
        lease["metadata"]["resourceVersion"] = str(next(self._versions))
        self.leases[lease["metadata"]["name"]] = lease
        self._tell("MODIFIED", lease)
        return copy.deepcopy(lease)

    def create(self, lease: dict[str, Any]) -> dict[str, Any]:
        name = lease["metadata"]["name"]
        if name in self.leases:
            raise AlreadyExists(name)
        return self.store({**lease, "metadata": {**lease["metadata"], "uid": f"uid-{next(self._versions)}"}})

    def replace(self, lease: dict[str, Any]) -> dict[str, Any]:
        before = self.get(lease["metadata"]["name"])
        for field in ("uid", "resourceVersion"):
            if lease["metadata"].get(field, before["metadata"][field]) != before["metadata"][field]:
                raise Conflict(lease["metadata"]["name"])
        return self.store(lease)

    def get(self, name: str) -> dict[str, Any]:
        if name not in self.leases:
            raise NotFound(name)
        return copy.deepcopy(self.leases[name])

    def delete(self, name: str, preconditions: dict[str, str] | None = None) -> None:
        before = self.get(name)
        if any(before["metadata"][field] != value for field, value in (preconditions or {}).items()):
            raise Conflict(name)
        del self.leases[name]
        before["metadata"]["resourceVersion"] = str(next(self._versions))
        self._tell("DELETED", before)

    def _tell(self, kind: str, lease: dict[str, Any]) -> None:
        for client in self.clients:
            client.events.append((kind, copy.deepcopy(lease)))


class LeaseClient:
    """The part of `ctrlhost.Client` that coordination uses, for one replica."""

    def __init__(self, server: LeaseServer, name: str) -> None:
        self.server, self.name = server, name
        server.clients.append(self)
        #: What its watch has not yet delivered.
        self.events: deque[tuple[str, dict[str, Any]]] = deque()
        self.watching = True
        #: Whether no request arrives.
        self.away = False
        #: Returns what happens to a write: nothing, `lost` or `unanswered`.
        self.fault: Callable[[str, str], str | None] = lambda verb, name: None

    def deliver(self, seen: Callable[[dict[str, Any]], None], removed: Callable[[dict[str, Any]], None]) -> None:
        while self.watching and not self.away and self.events:
            kind, lease = self.events.popleft()
            # What has lost its label leaves the watch.
            gone = kind == "DELETED" or FLEET not in (lease["metadata"].get("labels") or {})
            (removed if gone else seen)(lease)

    def _write(self, verb: str, name: str, handle: Callable[[], Any]) -> Any:
        fault = "lost" if self.away else self.fault(verb, name)
        if fault == "lost":
            raise TransportError("no connection")
        try:
            result = handle()
        except (Conflict, AlreadyExists):
            self.server.conflicts.append((self.name, name))
            raise
        self.server.writes.append((self.name, verb, name))
        if fault == "unanswered":
            raise TransportError("no answer in time")
        return result

    def create(self, lease: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        return self._write("create", lease["metadata"]["name"], lambda: self.server.create(lease))

    def replace(self, lease: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        return self._write("update", lease["metadata"]["name"], lambda: self.server.replace(lease))

    def delete(
        self, _version: str, _kind: str, name: str, _namespace: str, *, preconditions: dict[str, str], timeout: float
    ) -> None:
        self._write("delete", name, lambda: self.server.delete(name, preconditions))

    def get(self, _version: str, _kind: str, name: str, _namespace: str, *, timeout: float) -> dict[str, Any]:
        if self.away:
            raise TransportError("no connection")
        return self.server.get(name)

    def find(self, version: str, kind: str, name: str, namespace: str, *, timeout: float) -> dict[str, Any] | None:
        try:
            return self.get(version, kind, name, namespace, timeout=timeout)
        except NotFound:
            return None

    def list(self, _version: str, _kind: str, _namespace: str, *, timeout: float) -> Iterator[dict[str, Any]]:
        if self.away:
            raise TransportError("no connection")
        return iter(copy.deepcopy(list(self.server.leases.values())))
