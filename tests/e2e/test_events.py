"""Events of a host in the output of kubectl, on both servers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import ctrlhost
from ctrlhost import For
from ctrlhost.config.settings import HostSettings
from ctrlhost.events.correlator import BURST
from ctrlhost.host.host import Host
from tests.support.control_plane import BINARY, ControlPlane, require_kube_apiserver
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

LIMIT = 30.0
Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Kubectl:
    """Return the kubectl built with the real control plane, in the test's namespace."""
    require_kube_apiserver()
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "HOME": str(tmp_path)}

    def run(*words: str) -> str:
        command = [str(BINARY), "kubectl", "-n", namespace, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    return run


def test_kubectl_shows_events_with_their_counts_once_a_host_has_stopped(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    reconciled: list[str] = []

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        obj = ctx.get(request)
        assert obj is not None
        for number in range(5):
            ctx.events.warning(obj, "NoRoom", f"there is no room for part {number}", action="Place")
        ctx.events.normal(obj, "Placed", "the rest was placed")
        for number in range(BURST):
            ctx.events.normal(obj, f"Chatter{number:02}", "nobody needs to know")
        reconciled.append(request.name)

    source = For("v1", "ConfigMap", namespaces=[namespace], label_selector="mine")
    module = plugin_of(lambda plugin: plugin.add_controller("teller", reconcile, source))
    client = ctrlhost.Client.load(str(control_plane.kubeconfig))
    host = Host(HostSettings(listen=""), [module], client=client)
    host.start()
    control_plane.client.create(config_map("web", namespace, labels={"mine": "1"}))
    eventually(lambda: reconciled, LIMIT)
    assert host.stop(10)
    client.close()

    described = kubectl("describe", "configmap", "web")
    lines = [line.split() for line in described.partition("Events:")[2].splitlines()]
    (no_room,) = [line for line in lines if "NoRoom" in line]
    assert no_room[0] == "Warning"
    assert "(x5" in no_room, "five events, and the last three counted until the shutdown"
    assert " ".join(no_room).endswith("there is no room for part 0")
    (placed,) = [line for line in lines if "Placed" in line]
    assert placed[0] == "Normal"

    listed = [line.split() for line in kubectl("events", "--for", "configmap/web").splitlines()[1:]]
    assert {"NoRoom", "Placed"} <= {word for line in listed for word in line}
    assert all("ConfigMap/web" in line for line in listed)
    # A series needs a second write, and the number of events of an object per source is limited.
    assert len(listed) == BURST - 1
    (warning,) = kubectl("events", "--types", "Warning").splitlines()[1:]
    assert "NoRoom" in warning
    counted = kubectl("get", "events.events.k8s.io", "-o", "jsonpath={.items[*].series.count}")
    assert counted.split() == ["5"]
