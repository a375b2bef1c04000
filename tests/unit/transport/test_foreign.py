"""Transports that somebody brings, written in Python."""

from __future__ import annotations

import json
import queue

import pytest

import ctrlhost
from ctrlhost.client import Client, HttpRequest, Response, Stream, Transport
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.workqueue import WorkQueue
from tests.support.stub_api_server import event, pod, pod_list
from tests.support.waiting import eventually


class Pieces(Stream):
    """A stream of pieces; None is its end."""

    def __init__(self, *pieces: bytes | None) -> None:
        self._pieces: queue.Queue[bytes | None] = queue.Queue()
        for piece in pieces:
            self.put(piece)

    def put(self, piece: bytes | None) -> None:
        self._pieces.put(piece)

    def read(self) -> bytes:
        piece = self._pieces.get()
        if piece is None:
            self._pieces.put(None)
        return piece or b""

    def close(self) -> None:
        self.put(None)


class InMemory(Transport):
    """A transport without a server."""

    def __init__(self) -> None:
        listed = json.dumps(pod_list(5, pod("a", 1))).encode()
        # Cut anywhere.
        self.listed = Pieces(listed[:30], listed[30:], None)
        self.watched = Pieces()
        self.sent: list[str] = []

    def send(self, request: HttpRequest) -> Response:
        self.sent.append(request.what)
        return Response(200, {}, json.dumps(pod("a", 1)).encode())

    def open(self, request: HttpRequest) -> Pieces:
        return self.watched if (request.query or {}).get("watch") else self.listed


@pytest.mark.behaviour("scale/SC24")
def test_an_informer_over_a_foreign_transport_lists_and_watches() -> None:
    transport = InMemory()
    factory = InformerFactory(Client.over(transport), options=ReflectorOptions(watch_list=False))
    informer = factory.informer("v1", "Pod")
    keys = WorkQueue()
    informer.enqueue_to(keys)
    factory.start()
    try:
        assert factory.wait_for_sync(20)
        assert [obj.name for obj in informer.lister.list()] == ["a"]
        frames = b"".join(json.dumps(event("ADDED", pod(name, 6))).encode() + b"\n" for name in "bc")
        for piece in (frames[:10], frames[10:]):
            transport.watched.put(piece)
        eventually(lambda: len(keys) == 3)
        assert sorted(obj.name for obj in informer.lister.list()) == ["a", "b", "c"]
    finally:
        factory.stop()


@pytest.mark.behaviour("scale/SC24")
def test_the_async_client_works_over_a_foreign_transport() -> None:
    import asyncio

    transport = InMemory()
    obj = asyncio.run(ctrlhost.AsyncClient(Client.over(transport)).get("v1", "Pod", "a", "default"))
    assert obj["metadata"]["name"] == "a"
    assert transport.sent == ["GET /api/v1/namespaces/default/pods/a"]
