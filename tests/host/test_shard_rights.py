"""The printed installation of replicas that share keys, with the printed rights alone, on a real kube-apiserver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from tests.host.conftest import Distributions
from tests.host.replicas import LIMIT, SHORT
from tests.support.control_plane import BINARY, KubeApiserver, require_kube_apiserver
from tests.support.host_pods import HostKubelet
from tests.support.rights import account_rule, forbidden, granted
from tests.support.waiting import eventually

NAMESPACE = "ctrlhost-system"
TEAMS = [f"team-{number}" for number in range(12)]

#: Writes the name of its replica into each ConfigMap labelled stamp=yes, a few times a second.
STAMPER = """
    import os
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_permissions(settings):
        return [ctrlhost.Permission("", ["configmaps"], ["patch"])]

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        source = ctrlhost.For("v1", "ConfigMap", label_selector="stamp=yes")
        plugin.add_controller("stamper", reconcile, source, shard_by="namespace")

    def reconcile(ctx, request):
        if ctx.get(request) is None:
            return None
        data = {"data": {"by": os.environ["HOSTNAME"]}}
        ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, data)
        return ctrlhost.Result(requeue_after=0.2)
"""


class Installation:
    """The printed manifests on a server, and their pods."""

    def __init__(self, server: KubeApiserver, kubelet: HostKubelet) -> None:
        self.server, self.client, self.kubelet = server, server.client, kubelet
        for name in TEAMS:
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            metadata = {"name": "stamped", "namespace": name, "labels": {"stamp": "yes"}}
            self.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def apply(self, manifests: str) -> None:
        subprocess.run(
            [BINARY, "kubectl", f"--kubeconfig={self.server.kubeconfig}", "apply", "--server-side", "-f", "-"],
            input=manifests,
            text=True,
            check=True,
        )

    def writers(self) -> set[str]:
        """Return the replicas that the objects name; the empty one is nobody."""
        objects = (self.client.get("v1", "ConfigMap", "stamped", name) for name in TEAMS)
        return {obj.get("data", {}).get("by", "") for obj in objects}

    def share(self) -> set[str]:
        """Wait until all objects are written by three pods that run, and return their names."""

        def shared() -> bool:
            return len(self.kubelet.pods()) == 3 and self.writers() == set(self.kubelet.pods())

        eventually(shared, LIMIT, "three pods share the objects", pause=0.1)
        return set(self.kubelet.pods())

    def member_leases(self) -> list[dict[str, Any]]:
        leases = self.client.list("coordination.k8s.io/v1", "Lease", NAMESPACE)
        return [lease for lease in leases if "-member-" in lease["metadata"]["name"]]


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    require_kube_apiserver()
    with KubeApiserver(tmp_path / "server", audit=[account_rule(NAMESPACE)]) as server:
        server.start_controllers()
        with TemporaryDirectory(prefix="pods-") as pods, HostKubelet(server, NAMESPACE, Path(pods)) as kubelet:
            yield Installation(server, kubelet)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.behaviour("shards/SH85")
def test_printed_rights_are_enough_for_replicas_that_start_stop_and_die(
    installation: Installation, ctrlhost: Any, distributions: Distributions, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributions.add("stamper", STAMPER)
    # The pods find the plugin where the command finds it.
    monkeypatch.setenv("PYTHONPATH", distributions.environment()["PYTHONPATH"])
    printed = ctrlhost("manifests", "--plugins=stamper", "--image=host:1", "--shards=3", *SHORT.options())
    assert printed.returncode == 0, printed.stderr
    manifests = list(yaml.safe_load_all(printed.stdout))
    (deployment,) = (each for each in manifests if each["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 3
    installation.apply(printed.stdout)
    # One replica stops, and one is killed, whose Lease the others empty; each gets a successor.
    stopped, killed, _ = installation.share()
    installation.client.delete("v1", "Pod", stopped, NAMESPACE)
    eventually(lambda: stopped not in installation.kubelet.pods(), LIMIT, f"{stopped} ends")
    assert stopped not in installation.share()
    (lease,) = (
        each for each in installation.member_leases() if each["spec"]["holderIdentity"].startswith(f"{killed}_")
    )
    installation.kubelet.pod(killed).kill()
    installation.client.delete("v1", "Pod", killed, NAMESPACE)

    def is_emptied() -> bool:
        current = installation.client.get("coordination.k8s.io/v1", "Lease", lease["metadata"]["name"], NAMESPACE)
        return not current["spec"].get("holderIdentity")

    eventually(is_emptied, LIMIT, f"the Lease of {killed} is emptied", pause=0.1)
    assert killed not in installation.share()
    requests = installation.server.audited()
    assert forbidden(requests) == []
    assert {request["user"]["username"] for request in requests} == {f"system:serviceaccount:{NAMESPACE}:ctrlhost"}
    delegator = installation.client.get("rbac.authorization.k8s.io/v1", "ClusterRole", "system:auth-delegator")
    rights = granted(manifests, [delegator])
    leases = {right.verb for right in rights if right.resource == "leases" and not right.name}
    # Leases of members that ended are deleted after an hour.
    used = {request["verb"] for request in requests if request["objectRef"].get("resource") == "leases"}
    assert used <= leases
    assert leases - used <= {"delete"}
