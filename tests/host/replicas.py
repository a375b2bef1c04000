"""Replicas of a host in their own processes, and their writes in the server's audit log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ctrlhost.coordination.lease import API_VERSION
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tests.support.control_plane import AuditedWrite, ControlPlane
    from tests.support.host_process import HostProcess

LIMIT = 60.0

#: Writes continuously while it leads, from a controller and from a task, with the version that it read.
HAMMER = """
    import os
    import ctrlhost

    def write(client, found):
        metadata = {key: found["metadata"][key] for key in ("name", "namespace", "labels", "resourceVersion")}
        data = {"by": os.environ["HOSTNAME"], "count": str(int(found.get("data", {}).get("count", 0)) + 1)}
        try:
            client.replace({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        except ctrlhost.Conflict:
            pass

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        # Its own writes trigger no reconcile.
        created = lambda old, new: old is None
        source = ctrlhost.For("v1", "ConfigMap", label_selector=f"{plugin.name}=yes", predicates=[created])
        plugin.add_controller("hammer", reconcile, source)

        def run(stop):
            while not stop.wait(0.05):
                if found := plugin.client.find("v1", "ConfigMap", f"{plugin.name}-task", os.environ["NAMESPACE"]):
                    write(plugin.client, found)

        plugin.add_task("hammer", run, needs_leader=True)

    @ctrlhost.hookimpl
    def ctrlhost_deposed(plugin):
        plugin.log.info("deposed")

    def reconcile(ctx, request):
        obj = ctx.get(request)
        if obj is None:
            return None
        write(ctx.client, obj.to_dict())
        return ctrlhost.Result(requeue_after=0.05)
"""


class Times:
    """The times of an election, in seconds."""

    def __init__(self, lease_duration: int, renew_deadline: int, retry_period: int) -> None:
        self.lease_duration, self.renew_deadline, self.retry_period = lease_duration, renew_deadline, retry_period

    def options(self) -> list[str]:
        return [f"--set=host.leader_elect_{name}={value}s" for name, value in vars(self).items()]


#: Short, but long enough for a busy machine.
SHORT = Times(6, 4, 1)
#: So long that no takeover in a test can wait for one of them.
LONG = Times(3 * 3600, 2 * 3600, 3600)
#: The maximum latency of a write or of an election's request on such a machine.
ON_THE_WAY = 1.0


class Replicas:
    """Processes that run the same plugins in one namespace, and their writes."""

    def __init__(
        self, control_plane: ControlPlane, namespace: str, start_host: Callable[..., HostProcess], *plugins: str
    ) -> None:
        self.client, self.namespace, self.plugins = control_plane.client, namespace, plugins or ("hammer",)
        self._control_plane, self._start = control_plane, start_host
        for plugin in self.plugins:
            for name in ("controller", "task"):
                labels = {plugin: "yes" if name == "controller" else "no"}
                metadata = {"name": f"{plugin}-{name}", "namespace": namespace, "labels": labels}
                self.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def start(self, name: str, times: Times, *options: str, kubeconfig: Any = None) -> HostProcess:
        return self._start(
            "--leader-elect",
            f"--kubeconfig={kubeconfig or self._control_plane.kubeconfig}",
            f"--namespace={self.namespace}",
            f"--set=host.leader_elect_resource_namespace={self.namespace}",
            *times.options(),
            *options,
            plugins=",".join(self.plugins),
            HOSTNAME=name,
            NAMESPACE=self.namespace,
        )

    # The current state.

    def lease(self, name: str = "ctrlhost") -> dict[str, Any]:
        lease = self.client.find(API_VERSION, "Lease", name, self.namespace)
        spec: dict[str, Any] = lease["spec"] if lease else {}
        return spec

    def holder(self, name: str = "ctrlhost") -> str:
        return str(self.lease(name).get("holderIdentity", "")).partition("_")[0]

    def edit(self, **spec: Any) -> None:
        self.client.patch(API_VERSION, "Lease", "ctrlhost", self.namespace, {"spec": spec})

    def wait_for_writes(self, name: str, plugin: str = "hammer") -> None:
        """Wait until both writers of this replica write after this call."""
        since = time.time()
        for writer in ("controller", "task"):
            eventually(
                lambda writer=writer: any(
                    write.at > since and write.name == f"{plugin}-{writer}" and write.body["data"]["by"] == name
                    for write in self.writes()
                ),
                LIMIT,
                f"{name} writes {plugin}-{writer}",
            )

    # The audit log.

    def writes(self) -> list[AuditedWrite]:
        """Return the replicas' writes to ConfigMaps."""
        audited = self._control_plane.audited_writes(self.namespace)
        return [write for write in audited if write.resource == "configmaps" and "data" in write.body]

    def terms(self, name: str = "ctrlhost") -> list[tuple[float, str]]:
        """Return time and holder of every accepted write of a Lease."""
        changes = []
        for write in self._control_plane.audited_writes(self.namespace):
            spec, generated = write.body.get("spec"), write.body.get("metadata", {}).get("name")
            if write.resource == "leases" and write.code < 300 and spec is not None and name in (write.name, generated):
                changes.append((write.at, str(spec.get("holderIdentity", "")).partition("_")[0]))
        return changes

    def acquired(self, name: str, since: float) -> float:
        """Return when this replica first took the Lease after `since`."""
        return self.written(lambda holder: holder == name, since)

    def released(self, since: float) -> float:
        return self.written(lambda holder: not holder, since)

    def written(self, by: Callable[[str], bool], since: float) -> float:
        """Return when the Lease was first written with a holder `by` after `since`.

        A reader of the Lease may see a write before the server has logged it.
        """
        return eventually(lambda: next((at for at, holder in self.terms() if by(holder) and at > since), None))

    def check(
        self,
        times: Times,
        *,
        plugin: str = "hammer",
        lease: str = "ctrlhost",
        paused: Collection[str] = (),
        manual_holder: str = "nobody",
    ) -> None:
        """Check that no write started after its writer's renew deadline or succeeded while another held the Lease.

        A replica `paused` during a request may send it late: at most one for each of its two writers, and the server
        must have refused it. The leader sees a `manual_holder` of the Lease a moment later.
        """
        terms, late = self.terms(lease), []
        for write in self.writes():
            if not write.name.startswith(f"{plugin}-"):
                continue
            by = write.body["data"]["by"]
            renewals = [at for at, holder in terms if holder == by and at <= write.at]
            assert renewals, f"{by} wrote without a term as leader: {write}"
            since, holder = [term for term in terms if term[0] <= write.at][-1]
            if holder == manual_holder and write.at <= since + ON_THE_WAY:
                continue
            if write.at <= renewals[-1] + times.renew_deadline + ON_THE_WAY and (holder == by or write.code == 409):
                continue
            assert by in paused, f"{by} wrote {write.at - renewals[-1]:.3f} s after its last renewal: {write}"
            assert write.code == 409, f"a late write of {by} took effect: {write}"
            late.append(write)
        assert len(late) <= 2, late
