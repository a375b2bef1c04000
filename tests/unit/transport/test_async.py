"""Calls of the async client: no threads, and what a cancellation does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import AsyncClient
from ctrlhost.client import Client, async_client
from ctrlhost.client.budget import Budget
from ctrlhost.client.governed import GovernedTransport
from ctrlhost.coordination.term import Tenure
from ctrlhost.coordination.writes import Permit, Refusals, Writes
from ctrlhost.errors import NotFound, NotLeading, TransportError
from tests.support.stub_api_server import Computed, Failure, Frames, Json, ReceivedRequest, StubApiServer, pod
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
POD = "/api/v1/namespaces/default/pods/a"


async def until(happened: Callable[[], bool]) -> None:
    """Wait for something that a thread of the server does."""
    await asyncio.to_thread(eventually, happened)


@behaviour("scale/SC20")
def test_a_hundred_calls_at_once_need_no_threads(server: StubApiServer, client: Client) -> None:
    meet = threading.Barrier(101, timeout=30)

    def answer(_: ReceivedRequest) -> Json:
        meet.wait()
        return Json(pod("a", 1))

    server.on("GET", POD, Computed(answer))
    mine = AsyncClient(client)

    async def run() -> tuple[set[str], list[Any]]:
        calls = [asyncio.ensure_future(mine.get("v1", "Pod", "a")) for _ in range(100)]
        while meet.n_waiting < 100:
            await asyncio.wait(calls, timeout=0.01)
        names = {thread.name for thread in threading.enumerate()}
        assert native() <= before_native + 1, "no thread but that of I/O"
        meet.wait()
        return names, await asyncio.gather(*calls)

    def native() -> int:
        """Return how many threads are not Python's."""
        return len(list(Path("/proc/self/task").iterdir())) - threading.active_count()

    before, before_native = {thread.name for thread in threading.enumerate()}, native()
    names, pods = asyncio.run(run())
    # Those of the server aside.
    assert {name for name in names - before if "process_request_thread" not in name} <= {"ctrlhost answers"}
    assert [pod["metadata"]["name"] for pod in pods] == ["a"] * 100


@behaviour("scale/SC20")
def test_cancelling_a_read_closes_its_connection(server: StubApiServer, client: Client) -> None:
    frames = Frames()
    server.on("GET", POD, frames, Json(pod("a", 1)))

    async def run() -> Any:
        mine = AsyncClient(client)
        call = asyncio.ensure_future(mine.get("v1", "Pod", "a"))
        await until(frames.opened.is_set)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await mine.get("v1", "Pod", "a")

    assert asyncio.run(run())["metadata"]["name"] == "a"
    assert frames.closed.wait(20)
    assert server.connections == 2


@behaviour("scale/SC20")
def test_cancelling_a_write_neither_undoes_nor_repeats_it(server: StubApiServer, client: Client) -> None:
    arrived, go = threading.Event(), threading.Event()
    written: list[str] = []

    def answer(_: ReceivedRequest) -> Json:
        arrived.set()
        go.wait(30)
        return Json(pod("a", 2))

    server.on("PATCH", POD, Computed(answer))

    async def run() -> None:
        mine = AsyncClient(client.derive(on_write=lambda write: written.append(write.verb)))
        call = asyncio.ensure_future(mine.patch("v1", "Pod", "a", None, {"x": 1}))
        await until(arrived.is_set)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        go.set()
        await until(lambda: bool(written))

    asyncio.run(run())
    assert written == ["patch"]
    assert [request.method for request in server.requests] == ["PATCH"]
    assert server.connections == 1


@behaviour("findings3/NC12")
def test_a_write_that_is_cancelled_while_it_waits_for_the_budget_is_not_sent(
    server: StubApiServer, client: Client
) -> None:
    server.on("PATCH", POD, Json(pod("a", 2)))
    waits: list[float] = []
    writes = Writes("demo", Tenure.endless(), Refusals())
    permit = Permit(writes, 1)
    transport = GovernedTransport(
        client.transport, Budget(1.0, waits.append), writes.read, permit, in_flight=permit.in_flight
    )
    mine = AsyncClient(Client.over(transport))

    async def run() -> None:
        for _ in range(2):
            await mine.patch("v1", "Pod", "a", "default", {})
        call = asyncio.ensure_future(mine.patch("v1", "Pod", "a", "default", {}))
        while not waits:
            await asyncio.wait([call], timeout=0.01)
        assert not writes.in_flight.writes
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert async_client._continuing
        await asyncio.wait(async_client._continuing)

    asyncio.run(run())
    assert len(server.requests) == 2


@behaviour("findings3/NC13")
def test_the_end_of_a_loop_closes_the_connections_of_its_writes(server: StubApiServer, client: Client) -> None:
    frames = Frames()
    server.on("PATCH", POD, frames)
    writes = Writes("demo", Tenure.endless(), Refusals())
    permit = Permit(writes, 1)
    transport = GovernedTransport(client.transport, None, writes.read, permit, in_flight=permit.in_flight)

    async def run() -> None:
        call = asyncio.ensure_future(AsyncClient(Client.over(transport)).patch("v1", "Pod", "a", "default", {}))
        await until(frames.opened.is_set)
        assert len(permit.in_flight.writes) == len(writes.in_flight.writes) == 1
        call.cancel()

    asyncio.run(run())
    assert frames.closed.wait(20)
    assert writes.in_flight.wait(20)
    assert permit.in_flight.wait(0)


def test_errors_and_retries_are_those_of_the_client(server: StubApiServer, client: Client) -> None:
    server.on("GET", POD, Failure(429, "TooManyRequests", retry_after=0), Failure(404, "NotFound"))

    async def run() -> None:
        with pytest.raises(NotFound):
            await AsyncClient(client).get("v1", "Pod", "a")
        with pytest.raises(TransportError, match="cannot connect"):
            await AsyncClient(Client("http://127.0.0.1:1")).get("v1", "Pod", "a")

    asyncio.run(run())
    assert len(server.requests) == 2


def test_the_budget_and_the_permit_hold_for_awaited_calls(server: StubApiServer, client: Client) -> None:
    server.on("PATCH", POD, Json(pod("a", 2)))
    tenure, throttled = Tenure.endless(), list[float]()
    writes = Writes("demo", tenure, Refusals())
    budget = Budget(20.0, throttled.append)
    transport = GovernedTransport(client.transport, budget, writes.read, Permit(writes, 1))
    mine = AsyncClient(Client.over(transport))

    async def run() -> None:
        calls = [mine.patch("v1", "Pod", "a", "default", {}) for _ in range(42)]
        await asyncio.gather(*calls)
        tenure.end()
        with pytest.raises(NotLeading, match=r"does not lead|is over"):
            await mine.patch("v1", "Pod", "a", "default", {})

    asyncio.run(run())
    assert len(server.requests) == 42
    # One burst of 40 passes at once.
    assert len(throttled) >= 2
