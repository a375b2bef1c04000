"""Replicas that share keys, each in a process, and their writes in the server's audit log."""

from __future__ import annotations

import time
from bisect import bisect
from collections import defaultdict
from typing import Any

from ctrlhost._core import shard_hash
from ctrlhost.coordination.lease import API_VERSION
from ctrlhost.coordination.ownership import spans
from ctrlhost.coordination.shard_map import Incarnation, ShardMap, parse
from tests.host.replicas import LIMIT, SHORT, Times
from tests.support.waiting import eventually

MAP = "ctrlhost-shards"
NAMESPACES = 12
#: Writes each object a few times a second from one controller; another one prints when each of its runs began.
HAMMER = """
    import os
    import time
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        source = ctrlhost.For("v1", "ConfigMap", label_selector="hammer=yes")
        plugin.add_controller("hammer", reconcile, source, shard_by="namespace", workers=2)
        plugin.add_controller("runs", run, source, shard_by="namespace")

    def run(ctx, request):
        print(f"run {time.time()}", flush=True)
        return ctrlhost.Result(requeue_after=0.2)

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


def owner_in(shards: ShardMap, namespace: str) -> Incarnation | None:
    """Return whom the map names as the owner of a namespace."""
    (owner,) = (
        shards.lines[span.line][place].owner
        for span, place in spans(shards)
        if span.covers("namespace", shard_hash(namespace))
    )
    return owner


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

    def start(self, name: str, *options: str, times: Times = SHORT, kubeconfig: Any = None) -> Any:
        return self._start(
            "--shards",
            f"--kubeconfig={kubeconfig or self._control_plane.kubeconfig}",
            f"--namespace={','.join(self.namespaces)}",
            f"--set=host.leader_elect_resource_namespace={self.namespace}",
            *times.options(),
            *options,
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
        shards = parse(leases[MAP]["metadata"]["annotations"]["ctrlhost.dev/shards"])
        return [
            namespace
            for namespace in self.namespaces
            if (owner := owner_in(shards, namespace))
            and leases[owner.lease]["spec"]["holderIdentity"].startswith(f"{name}_")
        ]

    def renewals(self, name: str) -> list[float]:
        """Return when the Lease of a member was written by its replica."""
        return [
            at
            for at, lease, body in self.leases()
            if "-member-" in lease and str(body["spec"].get("holderIdentity", "")).startswith(f"{name}_")
        ]

    def leases(self) -> list[tuple[float, str, dict[str, Any]]]:
        """Return the accepted writes of Leases: when they came, name and body."""
        return [
            (write.at, write.name or write.body["metadata"]["name"], write.body)
            for write in self._control_plane.audited_writes(self.namespace)
            if write.resource == "leases" and write.code < 300
        ]

    def maps(self) -> list[tuple[float, ShardMap]]:
        """Return the accepted shard maps, each with when it came."""
        return [
            (at, parse(body["metadata"]["annotations"]["ctrlhost.dev/shards"]))
            for at, lease, body in self.leases()
            if lease == MAP
        ]

    def check(self) -> None:
        """Check that each accepted write is of the replica that the map named when the write came.

        An owner writes the map after its last write to an object was answered, and the next one writes to the object
        after it has read that map: so no two write by turns.
        """
        holders = {
            lease: holder.partition("_")[0]
            for _, lease, body in self.leases()
            if (holder := body.get("spec", {}).get("holderIdentity"))
        }
        maps = self.maps()
        for name, writes in self.writes().items():
            for at, by, code in writes:
                if code == 200:
                    _, shards = maps[bisect(maps, at, key=lambda entry: entry[0]) - 1]
                    owner = owner_in(shards, name)
                    owned_by = holders[owner.lease] if owner else "nobody"
                    assert owned_by == by, f"{by} wrote {name}, which {owned_by} owned"


def runs(process: Any) -> list[float]:
    """Return when each run of a replica began."""
    return [float(line.removeprefix("run ")) for line in list(process.output) if line.startswith("run ")]
