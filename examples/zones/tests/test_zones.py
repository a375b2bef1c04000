from types import SimpleNamespace
from typing import Any

from zones import forget, plugin

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
    """Return the number of records of each Zone that a replica has."""
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
    eventually(lambda: counts(first) | counts(second) == dict.fromkeys(keys, 2))
    (gone,) = list(counts(second))[:1]
    client.delete("zones.example.com/v1", "Zone", gone.name, gone.namespace)
    eventually(lambda: gone not in counts(second))


def test_zones_that_stay_are_reconciled_while_others_are_forgotten() -> None:
    state = {ctrlhost.Request("zone", team): 1 for team in TEAMS}

    def owns(request: ctrlhost.Request) -> bool:
        state[ctrlhost.Request("new", request.namespace)] = 1
        return request.namespace == TEAMS[0]

    host: Any = SimpleNamespace(state=state, owns=owns)
    forget(host)
    assert {request for request in state if request.name == "zone"} == {ctrlhost.Request("zone", TEAMS[0])}
