"""Replicas that share keys, each in a process, which are killed, stopped and cut off; judged by the audit log."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from typing import Any

import pytest

from ctrlhost._core import shard_hash
from ctrlhost.coordination.lease import API_VERSION
from ctrlhost.coordination.ownership import spans
from ctrlhost.coordination.shard_map import parse
from tests.host.replicas import LIMIT, ON_THE_WAY, SHORT
from tests.support.waiting import eventually

NAMESPACES = 12
HAMMER = """
    import os
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        source = ctrlhost.For("v1", "ConfigMap", label_selector="hammer=yes")
        plugin.add_controller("hammer", reconcile, source, shard_by="namespace", workers=2)

    def reconcile(ctx, request):
        obj = ctx.get(request)
        if obj is None:
            return None
        kept = ("name", "namespace", "labels", "resourceVersion")
        metadata = {key: obj.to_dict()["metadata"][key] for key in kept}
        data = {"by": os.environ["HOSTNAME"]}
        try:
            ctx.client.replace({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        except ctrlhost.Conflict:
            pass
        return ctrlhost.Result(requeue_after=0.2)
"""


class ShardedReplicas:
    """Processes that share the objects of some namespaces."""

    def __init__(self, control_plane: Any, namespace: str, start_host: Any) -> None:
        self._control_plane, self.namespace, self._start = control_plane, namespace, start_host
        self.client = control_plane.client
        self.namespaces = [f"{namespace}-{number}" for number in range(NAMESPACES)]
        for name in self.namespaces:
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            metadata = {"name": "hammered", "namespace": name, "labels": {"hammer": "yes"}}
            self.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def start(self, name: str) -> Any:
        return self._start(
            "--shards",
            f"--kubeconfig={self._control_plane.kubeconfig}",
            f"--namespace={','.join(self.namespaces)}",
            f"--set=host.leader_elect_resource_namespace={self.namespace}",
            *SHORT.options(),
            plugins="hammer",
            HOSTNAME=name,
        )

    def writes(self) -> dict[str, list[tuple[float, str, int]]]:
        """Return the writes to each object in order: when they came, by whom, and the answer."""
        writes = defaultdict(list)
        for name in self.namespaces:
            for write in self._control_plane.audited_writes(name):
                if write.resource == "configmaps" and "by" in write.body.get("data", {}):
                    writes[name].append((write.at, write.body["data"]["by"], write.code))
        return writes

    def owner(self, since: float) -> dict[str, str]:
        """Return who wrote each object last, of those that were written after a moment."""
        return {name: written[-1][1] for name, written in self.writes().items() if written and written[-1][0] > since}

    def wait_until_shared(self, *names: str) -> dict[str, str]:
        """Wait until these replicas write the objects, each some of them."""
        since = time.time()

        def shared() -> dict[str, str]:
            owners = self.owner(since)
            complete = len(owners) == NAMESPACES and set(owners.values()) == set(names)
            return owners if complete else {}

        owners: dict[str, str] = eventually(shared, LIMIT, f"{names} share the objects", pause=0.1)
        return owners

    def owned_by(self, name: str) -> list[str]:
        """Return the namespaces that the shard map gives to a replica now."""
        leases = {lease["metadata"]["name"]: lease for lease in self.client.list(API_VERSION, "Lease", self.namespace)}
        shards = parse(leases["ctrlhost-shards"]["metadata"]["annotations"]["ctrlhost.dev/shards"])
        return [
            namespace
            for namespace in self.namespaces
            for span, place in spans(shards)
            if span.covers("namespace", shard_hash(namespace))
            and (owner := shards.lines[span.line][place].owner)
            and leases[owner.lease]["spec"]["holderIdentity"].startswith(f"{name}_")
        ]

    def renewals(self, name: str) -> list[float]:
        """Return when the Lease of a member was written by its replica."""
        return [
            write.at
            for write in self._control_plane.audited_writes(self.namespace)
            if write.resource == "leases"
            and write.code < 300
            and str(write.body.get("spec", {}).get("holderIdentity", "")).startswith(f"{name}_")
            and "-member-" in (write.name or write.body["metadata"]["name"])
        ]


@pytest.fixture
def replicas(control_plane, namespace, start_host, distributions):
    distributions.add("hammer", HAMMER)
    return ShardedReplicas(control_plane, namespace, start_host)


@pytest.mark.behaviour("shards/SH78")
def test_the_ranges_of_a_killed_replica_rest_until_its_lease_has_expired(replicas):
    replicas.start("a")
    second = replicas.start("b")
    replicas.wait_until_shared("a", "b")
    second.signal(signal.SIGKILL)
    second.wait()
    lost = replicas.owned_by("b")
    assert lost
    replicas.wait_until_shared("a")
    last = replicas.renewals("b")[-1]
    for name in lost:
        written = replicas.writes()[name]
        ended = max(at for at, by, _ in written if by == "b")
        taken = min(at for at, by, _ in written if by == "a" and at > ended)
        assert taken >= last + SHORT.lease_duration - ON_THE_WAY, "taken before the Lease expired"


@pytest.mark.slow
@pytest.mark.behaviour("shards/SH79")
def test_a_replica_that_slept_for_too_long_comes_back_with_nothing(replicas):
    first, second = replicas.start("a"), replicas.start("b")
    owners = replicas.wait_until_shared("a", "b")
    second.signal(signal.SIGSTOP)
    replicas.wait_until_shared("a")
    woken = time.time()
    second.signal(signal.SIGCONT)
    # It joins again, and gets some back.
    replicas.wait_until_shared("a", "b")
    joined = next(at for at in replicas.renewals("b") if at > woken)
    slept = [name for name, owner in owners.items() if owner == "b"]
    for name in slept:
        late = [(at, code) for at, by, code in replicas.writes()[name] if by == "b" and woken < at < joined]
        assert all(code == 409 for _, code in late), f"the sleeper wrote {name}: {late}"
    assert (first.stop(), second.stop()) == (0, 0)
