"""Electors on a stub API server with a manual clock, and a Lease that the test reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ctrlhost
from ctrlhost.client import HttpRequest, Response, Transport
from ctrlhost.config.settings import LeaderElectionConfig
from ctrlhost.coordination.elector import LeaderElector
from ctrlhost.coordination.lease import API_VERSION, LeaderElectionRecord, LeaseLock
from ctrlhost.testing import ManualClock
from ctrlhost.transport.steps import Steps
from ctrlhost.transport.wrapped import WrappedTransport

LIMIT = 30.0


VERBS = {"GET": "get", "POST": "create", "PUT": "update"}


class Recording(WrappedTransport):
    """A transport that records requests, and can delay or abort one."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.operations: list[str] = []
        self.before: Callable[[str], None] = lambda _: None

    def steps(self, request: HttpRequest) -> Steps[Response]:
        self.operations.append(VERBS[request.method])
        self.before(VERBS[request.method])
        return (yield from super().steps(request))


class Rig:
    """Candidates for the Lease `default/foo`."""

    def __init__(self, client: ctrlhost.Client, clock: ManualClock) -> None:
        self.client, self.clock = client, clock
        self.recording = Recording(client.transport)
        self.events: dict[str, list[str]] = {}

    def elector(self, identity: str, config: LeaderElectionConfig | None = None, **labels: str) -> LeaderElector:
        client = ctrlhost.Client.over(self.recording)
        events = self.events.setdefault(identity, [])
        return LeaderElector(
            LeaseLock(client, "default", "foo", identity, labels),
            self.clock,
            config,
            on_started_leading=lambda: events.append("started"),
            on_stopped_leading=lambda: events.append("stopped"),
            on_new_leader=lambda leader: events.append(f"leader {leader}".rstrip()),
        )

    def put(self, holder: str | None = None, seconds: int | None = None, **spec: Any) -> None:
        spec |= {"holderIdentity": holder} if holder else {}
        spec |= {"leaseDurationSeconds": seconds} if seconds else {}
        self.client.create(
            {
                "apiVersion": API_VERSION,
                "kind": "Lease",
                "metadata": {"name": "foo", "namespace": "default"},
                "spec": spec,
            }
        )

    def edit(self, **spec: Any) -> None:
        self.client.patch(API_VERSION, "Lease", "foo", "default", {"spec": spec})

    def delete(self) -> None:
        self.client.delete(API_VERSION, "Lease", "foo", "default")

    @property
    def lease(self) -> dict[str, Any]:
        return self.client.get(API_VERSION, "Lease", "foo", "default")

    @property
    def record(self) -> LeaderElectionRecord:
        return LeaderElectionRecord.of(self.lease)
