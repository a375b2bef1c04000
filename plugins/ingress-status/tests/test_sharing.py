"""Replicas that share the Ingresses by their namespaces, judged by the audit log of the sandbox."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from ctrlhost.testing import HostUnderTest, StartHost

INGRESS = ("networking.k8s.io/v1", "Ingress")
TEAMS = [f"team-{number}" for number in range(12)]
TIMES = {
    "leader_elect_lease_duration": "6s",
    "leader_elect_renew_deadline": "4s",
    "leader_elect_retry_period": "500ms",
}
A, B, C = "203.0.113.1", "203.0.113.2", "203.0.113.3"


class Fleet:
    """Replicas on one sandbox, and an Ingress in each of some namespaces."""

    def __init__(self, sandbox: Sandbox, start: StartHost) -> None:
        self.sandbox, self._start = sandbox, start
        self.client = ctrlhost.Client.load(sandbox.kubeconfig)
        metadata = {"name": "envoy", "namespace": "default"}
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        self.client.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        for team in TEAMS:
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
            self.create("web", team)

    def create(self, name: str, team: str) -> None:
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        metadata = {"name": name, "namespace": team}
        body = {"apiVersion": INGRESS[0], "kind": INGRESS[1], "metadata": metadata}
        self.client.create({**body, "spec": {"defaultBackend": backend}})

    def start(self, **settings: Any) -> HostUnderTest:
        """Start a replica; settings have underscores."""
        service = {"envoy-service-name": "envoy", "envoy-service-namespace": "default", "status-qps": 0}
        more = {name.replace("_", "-"): value for name, value in settings.items()}
        return self._start(
            "ingress-status",
            sandbox=self.sandbox,
            shards={"enabled": True},
            settings={"ingress-status": service | more},
            **TIMES,
        )

    def address(self, ip: str | None) -> None:
        """Give the Service this address; None takes it away."""
        status = {"status": {"loadBalancer": {"ingress": [{"ip": ip}] if ip else None}}}
        self.client.patch("v1", "Service", "envoy", "default", status, subresource="status")

    def published(self, ip: str | None) -> bool:
        """Return whether all Ingresses have this address, or with None none."""
        statuses = [ingress.get("status") or {} for ingress in self.client.list(*INGRESS)]
        wanted = [{"ip": ip}] if ip else None
        return all((status.get("loadBalancer") or {}).get("ingress") == wanted for status in statuses)

    def written(self) -> dict[str, list[Any]]:
        """Return the addresses that were written to the Ingresses of each namespace, in order."""
        written: dict[str, list[Any]] = defaultdict(list)
        for record in self.sandbox.audit:
            if record.resource == "ingresses" and record.verb == "patch" and record.code == 200:
                (entry,) = json.loads(record.body)["status"]["loadBalancer"]["ingress"] or [{"ip": None}]
                written[record.namespace].append(entry["ip"])
        return written

    def writes(self) -> int:
        return sum(map(len, self.written().values()))


def state_of(host: HostUnderTest) -> Any:
    context = host.host.plugins[0].context
    assert context is not None
    return context.state


def parts(*hosts: HostUnderTest) -> list[set[str]]:
    """Return the namespaces whose Ingresses each replica caches, and may write."""
    owned = []
    for host in hosts:
        context = host.host.plugins[0].context
        assert context is not None
        cached = {obj.namespace for obj in context.informers[0].lister.list()}
        owned.append({team for team in cached if context.owns(ctrlhost.Request("web", team))})
        if cached != owned[-1]:
            return []
    return owned


def shared(*hosts: HostUnderTest) -> bool:
    """Return whether each namespace has one owner, and each replica some."""
    owned = parts(*hosts)
    return bool(owned) and all(owned) and sorted(team for part in owned for team in part) == sorted(TEAMS)


@pytest.fixture
def server() -> Iterator[Sandbox]:
    with Sandbox() as server:
        yield server


@pytest.fixture
def fleet(server: Sandbox, ctrlhost_host: StartHost) -> Fleet:
    return Fleet(server, ctrlhost_host)


@pytest.mark.behaviour("shards/SH84")
def test_each_replica_writes_the_ingresses_of_its_namespaces(fleet: Fleet) -> None:
    fleet.address(A)
    first = fleet.start()
    eventually(lambda: fleet.published(A))
    second = fleet.start()
    eventually(lambda: shared(first, second), 60)
    writes = fleet.writes()
    assert writes == len(TEAMS), "a move writes nothing"
    fleet.address(B)
    eventually(lambda: fleet.published(B))
    assert fleet.writes() == 2 * len(TEAMS), "one write of each"
    counts: dict[str, int] = defaultdict(int)
    for host, part in zip((first, second), parts(first, second), strict=True):
        wanted = {"current": len(part), "pending": 0, "foreign_class": 0}
        passes = state_of(host).passes
        eventually(lambda passes=passes, wanted=wanted: passes.count() == wanted)
        runs = host.controllers["ingress-status/ingress-status"].status().runs
        assert runs >= len(part)
        for team in part:
            counts[team] += 1
    assert set(counts.values()) == {1}
    # An Ingress that comes is written by its owner.
    for team in TEAMS:
        fleet.create("later", team)
    eventually(lambda: fleet.published(B))
    assert fleet.writes() == 3 * len(TEAMS)


@pytest.mark.behaviour("shards/SH84")
def test_who_takes_over_writes_what_is_wrong_only_and_state_of_lost_keys_goes(fleet: Fleet) -> None:
    fleet.address(A)
    first = fleet.start()
    eventually(lambda: fleet.published(A))
    state = state_of(first)
    for team in TEAMS:
        state.contention.edited(ctrlhost.Request("web", team), first.host.clock.now())
    second = fleet.start()
    eventually(lambda: shared(first, second), 60)
    eventually(lambda: {key.namespace for key in [*state.contention.keys()]} == parts(first, second)[0])
    before = fleet.writes()
    assert first.host.stop(60.0)
    eventually(lambda: shared(second), 60)
    assert fleet.writes() == before
    fleet.address(C)
    eventually(lambda: fleet.published(C))
    assert fleet.writes() == before + len(TEAMS)


@pytest.mark.behaviour("shards/SH84a")
def test_who_takes_over_writes_no_address_back_that_it_holds_off(fleet: Fleet) -> None:
    fleet.address(A)
    first = fleet.start(address_holdoff="10m", address_holdoff_max="10m")
    eventually(lambda: fleet.published(A))
    fleet.address(B)
    # A replica that starts publishes the address at once; the other one holds it off, until namespaces move.
    second = fleet.start(address_holdoff="10m", address_holdoff_max="10m")
    eventually(lambda: shared(first, second), 60)
    assert second.host.stop(60.0)
    eventually(lambda: fleet.published(B))
    eventually(lambda: shared(first), 60)
    assert fleet.written() == {team: [A, B] for team in TEAMS}


@pytest.mark.behaviour("shards/SH84b")
def test_a_replica_clears_what_came_to_it_after_the_address_went(fleet: Fleet) -> None:
    settings = {"on_empty": "clear", "clear_grace": "5s", "address_holdoff": "0s"}
    fleet.address(A)
    first = fleet.start(**settings)
    eventually(lambda: fleet.published(A))
    second = fleet.start(**settings)
    eventually(lambda: state_of(second).desired.known is not None)
    fleet.address(None)
    eventually(lambda: shared(first, second), 60)
    eventually(lambda: fleet.published(None), 60)
    assert fleet.written() == {team: [A, None] for team in TEAMS}
