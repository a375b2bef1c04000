"""The plugins of this repository on replicas that share keys; `hostname` and `naming` are led."""

from __future__ import annotations

import itertools
import signal
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from ctrlhost_bitcoin.model import API_VERSION as API
from ctrlhost_bitcoin.model import KIND
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.coordination.lease import API_VERSION
from tests.host.conftest import StartHost
from tests.host.replicas import LIMIT, SHORT
from tests.support.waiting import eventually

NETWORK, INGRESS = (API, KIND), ("networking.k8s.io/v1", "Ingress")
TEAMS = [f"team-{number}" for number in range(12)]


class Fleet:
    """Processes with all plugins; each is a user of its own, whom the audit log names."""

    def __init__(self, sandbox: Sandbox, start_host: StartHost) -> None:
        self.sandbox, self._start = sandbox, start_host
        self.client = ctrlhost.Client.load(sandbox.kubeconfig)

    def start(self, name: str) -> Any:
        return self._start(
            "--shards",
            "--install-crds",
            "--set=hostname.rest-port=0",
            "--set=ingress-status.ingress-status-address=192.0.2.1",
            f"--kubeconfig={self.sandbox.kubeconfig_for(user=name)}",
            "--set=host.leader_elect_resource_namespace=default",
            *SHORT.options(),
            plugins="bitcoin,hostname,ingress-status,naming",
            HOSTNAME=name,
        )

    def create_networks(self) -> None:
        api_version, kind = NETWORK
        for team in TEAMS:
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
            metadata = {"name": "net", "namespace": team}
            self.client.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"nodes": 1}})

    def size(self, nodes: int) -> dict[str, str]:
        """Give each network so many nodes; return by whom its StatefulSet got them."""
        for team in TEAMS:
            self.client.patch(*NETWORK, "net", team, {"spec": {"nodes": nodes}})

        def resized() -> bool:
            sets = [self.client.find("apps/v1", "StatefulSet", "net-sts", team) for team in TEAMS]
            return all(each is not None and each["spec"]["replicas"] == nodes for each in sets)

        eventually(resized, LIMIT, f"all networks have {nodes} nodes", pause=0.1)
        return {team: writers[-1] for team, writers in self.writers().items()}

    def writers(self) -> dict[str, list[str]]:
        """Return who wrote the StatefulSet of each network, in order."""
        writers: dict[str, list[str]] = defaultdict(list)
        for record in sorted(self.sandbox.audit, key=lambda record: record.monotonic):
            if record.resource == "statefulsets" and record.user in "abc" and record.verb in ("patch", "update"):
                writers[record.namespace].append(record.user)
        return writers

    def publish(self, name: str) -> dict[str, str]:
        """Create an Ingress in each namespace; return by whom each got its address, which is one replica."""
        backend = {"service": {"name": "shop", "port": {"number": 80}}}
        for team in TEAMS:
            body = {"apiVersion": INGRESS[0], "kind": INGRESS[1], "metadata": {"name": name, "namespace": team}}
            self.client.create({**body, "spec": {"defaultBackend": backend}})

        def have_addresses() -> bool:
            statuses = [self.client.get(*INGRESS, name, team).get("status") or {} for team in TEAMS]
            return all((status.get("loadBalancer") or {}).get("ingress") for status in statuses)

        eventually(have_addresses, LIMIT, f"all {name} have an address", pause=0.05)
        writers: dict[str, str] = {}
        for record in self.sandbox.audit:
            if record.resource == "ingresses" and record.name == name and record.verb in ("patch", "update"):
                assert record.namespace not in writers, f"{record.namespace}/{name} was written twice"
                writers[record.namespace] = record.user
        return writers

    def leader(self) -> str:
        lease = self.client.find(API_VERSION, "Lease", "ctrlhost", "default") or {"spec": {}}
        return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]


@pytest.fixture
def fleet(start_host: StartHost) -> Iterator[Fleet]:
    with Sandbox() as sandbox:
        yield Fleet(sandbox, start_host)


@pytest.mark.slow
@pytest.mark.behaviour("shards/SH84")
def test_bitcoin_and_ingresses_are_shared_while_the_other_plugins_have_one_leader(fleet: Fleet) -> None:
    hosts = {"a": fleet.start("a")}
    eventually(lambda: fleet.leader() == "a", LIMIT, "a leads")
    eventually(lambda: any(kind.kind == KIND for kind in fleet.client.kinds()), LIMIT, "the CRD")
    fleet.create_networks()
    sizes = itertools.count(2)
    assert set(fleet.size(next(sizes)).values()) == {"a"}
    for first, second in itertools.pairwise("abc"):
        hosts[second] = fleet.start(second)

        def shared(names: set[str]) -> bool:
            return set(fleet.size(next(sizes)).values()) == names

        eventually(partial(shared, {first, second}), LIMIT, f"{first} and {second} work", pause=0.5)
        assert fleet.leader() == first
        assert set(fleet.publish(f"with-{second}").values()) == {first, second}
        hosts[first].signal(signal.SIGKILL)
        hosts[first].wait()
        eventually(lambda leader=second: fleet.leader() == leader, LIMIT, f"{second} leads")  # type: ignore[misc]
        assert set(fleet.size(next(sizes)).values()) == {second}
        assert set(fleet.publish(f"without-{first}").values()) == {second}
    for team, writers in fleet.writers().items():
        names = [name for name, _ in itertools.groupby(writers)]
        assert len(names) == len(set(names)), f"{team} was written by turns: {names}"
