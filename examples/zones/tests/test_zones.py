from typing import Any

from zones import plugin

import ctrlhost
from ctrlhost.testing import HostUnderTest, StartHost
from tests.support.waiting import eventually

TEAMS = [f"zones-{number}" for number in range(8)]
TIMES = {
    "leader_elect_lease_duration": "6s",
    "leader_elect_renew_deadline": "4s",
    "leader_elect_retry_period": "500ms",
}


def service(name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}


def counts(host: HostUnderTest) -> dict[ctrlhost.Request, int]:
    """Return how often each zone has been written by a replica that still has it."""
    context = host.host.plugins[0].context
    assert context is not None
    return dict(context.state)


def test_two_replicas_write_the_zones_of_their_namespaces(ctrlhost_host: StartHost) -> None:
    options: dict[str, Any] = {"shards": {"enabled": True, "name": "zones"}, "least_privilege": True, **TIMES}
    first = ctrlhost_host(plugin, **options)
    client = first.client
    for team in TEAMS:
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
        client.create(service("web", team))
        zone = {"apiVersion": "zones.example.com/v1", "kind": "Zone", "metadata": {"name": "zone", "namespace": team}}
        client.create({**zone, "spec": {"domain": f"{team}.example.com"}})
    eventually(lambda: len(counts(first)) == len(TEAMS), 60)
    second = ctrlhost_host(plugin, server=first.server, **options)
    keys = {ctrlhost.Request("zone", team) for team in TEAMS}
    eventually(lambda: all(map(counts, (first, second))) and {*counts(first), *counts(second)} == keys, 60)
    eventually(lambda: not counts(first).keys() & counts(second).keys(), 60)
    for team in TEAMS:
        client.create(service("api", team))

    def records(team: str) -> set[str]:
        return set((client.get("v1", "ConfigMap", "zone", team).get("data") or {}).keys())

    eventually(
        lambda: all(records(team) == {f"{name}.{team}.example.com" for name in ("web", "api")} for team in TEAMS)
    )
