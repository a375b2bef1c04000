"""Writing events to the server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ctrlhost import Client, ConfigError, TransportError
from ctrlhost.client import HttpRequest, Response, Transport
from ctrlhost.events.recorder import EventRecorder, PluginEvents
from ctrlhost.events.sink import QUEUE_LENGTH, TRIES
from ctrlhost.testing import ManualClock
from tests.support.stub_api_server import (
    Answer,
    Body,
    Drop,
    Failure,
    Hang,
    Json,
    ReceivedRequest,
    StubApiServer,
    echo,
)
from tests.support.waiting import eventually

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "uid": "u1", "resourceVersion": "7"},
}


class RecorderRig:
    """A recorder that writes to the stub."""

    def __init__(self, server: StubApiServer, clock: ManualClock) -> None:
        self.server, self.clock = server, clock
        self.client = Client(server.url)
        self.recorder = EventRecorder(self.client, clock, host="here")
        self.events = PluginEvents(self.recorder, "demo")
        self.recorder.start()

    def idle(self) -> bool:
        return self.recorder.idle()

    def writes(self) -> list[ReceivedRequest]:
        return [request for request in self.server.requests if request.method != "GET"]


@pytest.fixture
def rig(server: StubApiServer, manual_clock: ManualClock) -> Iterator[RecorderRig]:
    rig = RecorderRig(server, manual_clock)
    yield rig
    rig.recorder.stop(5)
    rig.client.close()


def test_an_event_is_written_in_the_form_of_the_api(rig: RecorderRig, server: StubApiServer) -> None:
    server.on("POST", EVENTS, echo(201))
    rig.events.warning(POD, "NoNode", "no node has room", action="Schedule", related=POD)
    eventually(lambda: rig.writes() and rig.idle())
    event = rig.writes()[0].json()
    regarding = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": "u1",
        "resourceVersion": "7",
    }
    assert event["metadata"].pop("name").startswith("web.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Warning",
        "reason": "NoNode",
        "action": "Schedule",
        "note": "no node has room",
        "reportingController": "demo",
        "reportingInstance": "demo-here",
        "regarding": regarding,
        "related": regarding,
    }


@pytest.mark.behaviour("informers/EV8")
def test_a_repeated_event_patches_the_first_with_a_series(rig: RecorderRig, server: StubApiServer) -> None:
    server.on("POST", EVENTS, echo(201))
    rig.events.normal(POD, "Synced", "done")
    eventually(lambda: rig.writes() and rig.idle())
    name = rig.writes()[0].json()["metadata"]["name"]
    server.on("PATCH", f"{EVENTS}/{name}", Json({"kind": "Event", "metadata": {"name": name}}))
    rig.clock.advance(1.5)
    for _ in range(3):
        rig.events.normal(POD, "Synced", "done")
    rig.events.normal(POD, "Other", "done")
    eventually(lambda: len(rig.writes()) == 3 and rig.idle())
    patch = rig.writes()[1]
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert patch.json() == {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.500000Z"}}
    assert rig.writes()[2].json()["reason"] == "Other"


@pytest.mark.behaviour("informers/EV5")
def test_a_series_whose_event_is_gone_becomes_a_new_event(rig: RecorderRig, server: StubApiServer) -> None:
    server.on("POST", EVENTS, echo(201))
    rig.events.normal(POD, "Synced", "done")
    eventually(lambda: rig.writes() and rig.idle())
    rig.events.normal(POD, "Synced", "done")
    eventually(lambda: len(rig.writes()) == 3 and rig.idle())
    assert [request.method for request in rig.writes()] == ["POST", "PATCH", "POST"]
    again = rig.writes()[2].json()
    assert again["series"]["count"] == 2
    assert "resourceVersion" not in again["metadata"]


@pytest.mark.behaviour("informers/EV9")
def test_a_series_that_ended_gets_its_final_count(rig: RecorderRig, server: StubApiServer) -> None:
    server.on("POST", EVENTS, echo(201))
    for _ in range(5):
        rig.events.normal(POD, "Synced", "done")
    eventually(lambda: rig.writes() and rig.idle())
    before = len(rig.writes())

    def final() -> bool:
        rig.clock.advance(30)
        return len(rig.writes()) > before

    eventually(final)
    assert rig.writes()[before].json() == {"series": {"count": 5, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}


@pytest.mark.behaviour("informers/EV4")
@pytest.mark.parametrize(
    ("answers", "attempts"),
    [
        ([Failure(403, "Forbidden")], 1),
        ([Body(b"<html>")], TRIES),
        ([Drop()], TRIES),
        ([Drop(), echo(201)], 2),
    ],
)
def test_a_refusal_is_final_and_a_broken_connection_is_retried(
    rig: RecorderRig, server: StubApiServer, answers: list[Answer], attempts: int
) -> None:
    server.on("POST", EVENTS, answers)
    rig.events.normal(POD, "Synced", "done")
    for attempt in range(1, attempts + 1):
        eventually(lambda attempt=attempt: len(rig.writes()) == attempt and rig.idle())
        rig.clock.advance(13)
    rig.clock.advance(13)
    eventually(rig.idle)
    assert len(rig.writes()) == attempts
    assert rig.recorder.dropped == (0 if attempts == 2 else 1)


class MisconfiguredTransport(Transport):
    """A transport whose credentials cannot be loaded."""

    def __init__(self) -> None:
        self.requests = 0

    def send(self, request: HttpRequest) -> Response:
        self.requests += 1
        raise ConfigError("the token file is gone")


@pytest.mark.behaviour("informers/EV4")
def test_a_client_that_cannot_be_created_is_not_retried(manual_clock: ManualClock) -> None:
    transport = MisconfiguredTransport()
    recorder = EventRecorder(Client.over(transport), manual_clock)
    recorder.start()
    PluginEvents(recorder, "demo").normal(POD, "Synced", "done")
    eventually(lambda: recorder.dropped == 1)
    assert transport.requests == 1
    assert recorder.stop(5)


@pytest.mark.behaviour("informers/EV6")
def test_failed_events_get_one_more_attempt_without_delay_at_the_end(rig: RecorderRig, server: StubApiServer) -> None:
    server.on("POST", EVENTS, Drop())
    rig.events.normal(POD, "Synced", "done")
    eventually(lambda: len(rig.writes()) == 1 and rig.idle())
    assert rig.recorder.stop(5)
    assert len(rig.writes()) == 2


class FlakyTransport(Transport):
    """A transport that loses every event four times."""

    def __init__(self) -> None:
        self.failures: dict[str, int] = {}
        self.written: set[str] = set()

    def send(self, request: HttpRequest) -> Response:
        body = request.body or b""
        name = json.loads(body)["metadata"]["name"]
        self.failures[name] = self.failures.get(name, 0) + 1
        if self.failures[name] <= 4:
            raise TransportError("lost")
        self.written.add(name)
        return Response(201, {}, body)


@pytest.mark.behaviour("informers/EV7")
def test_a_thousand_events_that_fail_four_times_each_are_all_written(manual_clock: ManualClock) -> None:
    transport = FlakyTransport()
    recorder = EventRecorder(Client.over(transport), manual_clock)
    for number in range(QUEUE_LENGTH):
        metadata = {**POD["metadata"], "name": f"web-{number}"}
        PluginEvents(recorder, "demo").normal({**POD, "metadata": metadata}, "Synced", "done")
    recorder.start()

    def all_written() -> bool:
        if recorder.idle():
            manual_clock.advance(13)
        return len(transport.written) == QUEUE_LENGTH

    eventually(all_written, 60)
    assert recorder.dropped == 0
    assert set(transport.failures.values()) == {5}
    assert recorder.stop(5)


def test_a_server_that_does_not_answer_blocks_no_caller(rig: RecorderRig, server: StubApiServer) -> None:
    server.on("POST", EVENTS, Hang())
    for number in range(QUEUE_LENGTH + 100):
        metadata = {**POD["metadata"], "name": f"web-{number}"}
        rig.events.normal({**POD, "metadata": metadata}, "Synced", "done")
    assert 98 <= rig.recorder.dropped <= 100
    assert not rig.recorder.stop(0.01)
    server.stopping.set()


def test_long_texts_are_cut_to_the_limits_of_the_api(rig: RecorderRig, server: StubApiServer) -> None:
    server.on("POST", EVENTS, echo(201))
    rig.events.normal(POD, "R" * 300, "é" * 1000)
    eventually(lambda: rig.writes() and rig.idle())
    event = rig.writes()[0].json()
    assert len(event["reason"]) == len(event["action"]) == 128
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("é...")


def test_an_event_without_an_object_is_refused(rig: RecorderRig) -> None:
    with pytest.raises(TypeError, match="object with metadata"):
        rig.events.normal({}, "Synced", "done")


def test_cluster_scoped_objects_and_odd_names_get_events_too(rig: RecorderRig, server: StubApiServer) -> None:
    server.on("POST", EVENTS, echo(201))
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:Admin"}}
    rig.events.normal(role, "Seen", "once")
    eventually(lambda: rig.writes() and rig.idle())
    metadata = rig.writes()[0].json()["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["name"].startswith("system-admin.")
