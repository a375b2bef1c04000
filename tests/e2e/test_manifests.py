"""Printed manifests on a real kube-apiserver, applied and deleted with the commands of the how-to guide."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import ctrlhost
from tests.support.control_plane import KubeApiserver
from tests.support.go_modules import published
from tests.support.guides import steps_of
from tests.support.manifests import Manifest, of_kind
from tests.support.programs import install_programs
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "how-to" / "deploy.md"
ALL = ("bitcoin", "hostname", "ingress-status", "naming")
SETS = [chosen for size in range(1, 5) for chosen in itertools.combinations(ALL, size)]
CRD = "CustomResourceDefinition"


class Shell:
    """Runs commands of the guide against one server."""

    def __init__(self, server: KubeApiserver, folder: Path) -> None:
        self.client = server.client
        self._environment = {
            **os.environ,
            "PATH": f"{install_programs(folder / 'bin')}:{os.environ['PATH']}",
            "KUBECONFIG": str(server.kubeconfig),
            "HOME": str(folder),
        }

    def run(self, command: str) -> str:
        """Return what the command prints; one that fails is an error."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env=self._environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def manifests(self, arguments: str) -> list[Manifest]:
        """Return what `ctrlhost manifests` prints."""
        return list(yaml.safe_load_all(self.run(f"ctrlhost manifests --image=host:1 {arguments}")))

    def apply(self, arguments: str) -> list[Manifest]:
        """Apply what `ctrlhost manifests` prints, and return it."""
        self.run(f"ctrlhost manifests --image=host:1 {arguments} | kubectl apply --server-side -f -")
        return self.manifests(arguments)

    def stored(self, manifest: Manifest) -> Any:
        """Return the server's object, or None."""
        metadata = manifest["metadata"]
        return self.client.find(manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace"))


@pytest.fixture
def shell(own_kube_apiserver: KubeApiserver, tmp_path: Path) -> Shell:
    return Shell(own_kube_apiserver, tmp_path)


def guide_command() -> str:
    """Return the guide's command that applies manifests, after the name of the image."""
    commands = [step.commands for step in steps_of(GUIDE.read_text())]
    image = next(command for command in commands if command.startswith("image="))
    return image + next(command for command in commands if command.endswith(" | kubectl apply --server-side -f -\n"))


def cases() -> Iterator[Any]:
    for chosen in SETS:
        marks = () if chosen == ALL else pytest.mark.slow
        yield pytest.param(",".join(chosen), id="+".join(chosen), marks=marks)


@behaviour("operations/OP142")
@pytest.mark.parametrize("plugins", list(cases()))
def test_one_command_installs_on_an_empty_cluster_and_again_changes_nothing(shell: Shell, plugins: str) -> None:
    command = re.sub(r"--plugins \S+", f"--plugins {plugins}", guide_command())
    assert f"--plugins {plugins} " in command
    shell.run(command)
    manifests = list(yaml.safe_load_all(shell.run(command.partition(" | ")[0])))

    def established() -> bool:
        conditions = [shell.stored(manifest)["status"].get("conditions", ()) for manifest in of_kind(manifests, CRD)]
        return all(any(c["type"] == "Established" and c["status"] == "True" for c in some) for some in conditions)

    eventually(established, 60, "the CRDs are established")

    def versions() -> list[tuple[str, str, int]]:
        metadata = (shell.stored(manifest)["metadata"] for manifest in manifests)
        return [(entry["name"], entry["resourceVersion"], entry.get("generation", 0)) for entry in metadata]

    before = versions()
    assert len(before) == len(manifests) > 10
    shell.run(command)
    assert versions() == before


def pod_of(deployment: Manifest, name: str) -> Manifest:
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": name, "namespace": deployment["metadata"]["namespace"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@behaviour("operations/OP147")
def test_restricted_pod_security_admits_the_pod(shell: Shell) -> None:
    manifests = shell.apply(f"--plugins {','.join(ALL)} --leader-elect --secret bitcoin.default-image=images/bitcoind")
    (deployment,) = of_kind(manifests, "Deployment")
    pod = pod_of(deployment, "printed")
    escalating = pod_of(deployment, "escalating")
    (container,) = pod["spec"]["containers"]
    escalating["spec"] = {
        **pod["spec"],
        "containers": [{**container, "securityContext": {"allowPrivilegeEscalation": True}}],
    }
    with pytest.raises(ctrlhost.Forbidden, match="violates PodSecurity"):
        shell.client.create(escalating)
    created = shell.client.create(pod)

    (container,) = created["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == ["probes", "metrics", "status", "hostname"]
    assert container["ports"][0]["containerPort"] == 8484
    for name, path in (("startup", "/livez"), ("liveness", "/livez"), ("readiness", "/readyz")):
        probe = container[f"{name}Probe"]
        assert (probe["httpGet"]["path"], probe["httpGet"]["port"]) == (path, "probes")
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 60
    assert container["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": "512Mi"},
    }
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert created["spec"]["automountServiceAccountToken"] is True
    (account,) = of_kind(manifests, "ServiceAccount")
    assert account["automountServiceAccountToken"] is False


@behaviour("operations/OP153")
def test_policies_and_monitors_are_valid_and_name_ports_that_exist(shell: Shell) -> None:
    (operator,) = (row for row in published() if row.name == "prometheus-operator")
    for crd in operator.definitions():
        if crd["spec"]["names"]["kind"] == "ServiceMonitor":
            shell.client.apply(crd)
            eventually(lambda: served(shell, "monitoring.coreos.com/v1", "ServiceMonitor"), 60, "the kind is served")
    # kubectl asks the server to refuse unknown fields.
    manifests = shell.apply("--plugins hostname,naming --monitor --metrics-from monitoring,ops")

    (deployment,) = of_kind(manifests, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    services = of_kind(manifests, "Service")
    for service in services:
        assert service["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports

    (policy,) = of_kind(manifests, "NetworkPolicy")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    sources = {port["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    named = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in ("monitoring", "ops")
    ]
    assert sources == {"probes": None, "metrics": named, "hostname": None}

    (monitor,) = of_kind(manifests, "ServiceMonitor")
    assert shell.stored(monitor)["spec"] == monitor["spec"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", {"insecureSkipVerify": True})
    selected = [
        service
        for service in services
        if monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    ]
    assert [manifest["metadata"]["name"] for manifest in selected] == ["ctrlhost-metrics"]
    assert endpoint["port"] in {port["name"] for port in selected[0]["spec"]["ports"]}


def served(shell: Shell, api_version: str, kind: str) -> bool:
    try:
        shell.client.list(api_version, kind)
    except ctrlhost.CtrlhostError:
        return False
    return True


@behaviour("operations/OP154")
def test_uninstalling_leaves_crds_and_the_objects_of_others(shell: Shell) -> None:
    arguments = f"--plugins {','.join(ALL)} --leader-elect"
    manifests = shell.apply(arguments)
    network = ("bitcoincontroller.christianb93.github.com/v1", "BitcoinNetwork")
    eventually(lambda: served(shell, *network), 60, "the kind is served")
    metadata = {"name": "kept", "namespace": "lease"}
    spec = {"nodes": 1, "secret": "rpc"}
    shell.client.create({"apiVersion": network[0], "kind": network[1], "metadata": metadata, "spec": spec})
    shell.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    shell.run(f"ctrlhost manifests --image=host:1 {arguments} --uninstall | kubectl delete -f -")
    stay = ("CustomResourceDefinition", "Namespace")
    assert {manifest["kind"] for manifest in manifests if shell.stored(manifest) is not None} == set(stay)
    assert all(shell.stored(manifest) is not None for manifest in manifests if manifest["kind"] in stay)
    assert shell.client.get(*network, "kept", "lease")["spec"]["nodes"] == 1
    assert shell.client.get("v1", "ConfigMap", "kept", "lease")
