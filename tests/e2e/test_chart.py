"""The chart that `ctrlhost chart` writes, by helm and on a real kube-apiserver."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.host.conftest import Distributions
from tests.support import fork_server
from tests.support.control_plane import BINARY, KubeApiserver
from tests.support.go_modules import published
from tests.support.manifests import Manifest, of_kind
from tests.support.plugin_sources import WIDGETS
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
HELM = BINARY.with_name("helm")
NS = "hosts"
ALL = "bitcoin,hostname,ingress-status,naming"
KEEP = "helm.sh/resource-policy"
MANAGED_BY = "app.kubernetes.io/managed-by"
HASH = "ctrlhost.dev/config-hash"
SETTINGS = '[host]\ndrain_timeout = "7s"\n[plugins.naming] # {{ .Release.Name }}\n'
#: Values other than the defaults, and what they become in the pod.
POD: dict[str, Any] = {
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "only", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "system-cluster-critical",
    "imagePullSecrets": [{"name": "registry"}],
}
RESOURCES = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
VALUES: dict[str, Any] = {
    **POD,
    "image": "other:2",
    "replicas": 3,
    "resources": RESOURCES,
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "isolate": ["naming"],
    "settings": SETTINGS,
    "monitor": {"enabled": True, "labels": {"release": "prometheus"}},
}


class Helm:
    """Writes charts into one folder, and runs helm on them."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.chart = folder / "chart"
        self._folder, self._environment = folder, environment

    def write(self, *arguments: str, **environment: str) -> str:
        """Write the chart, and return what the command printed."""
        done = fork_server.run(
            "chart", f"--output={self.chart}", "--image=host:1", *arguments, env=self._environment | environment
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def values(self, **values: Any) -> str:
        """Return the option for a file with these values."""
        file = self._folder / "values.json"
        file.write_text(json.dumps(values))
        return f"--values={file}"

    def __call__(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [HELM, "--namespace", NS, *words], capture_output=True, text=True, timeout=120, env=self._environment
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def template(self, *words: str) -> list[Manifest]:
        """Return the objects of the chart."""
        documents = yaml.load_all(self("template", "web", str(self.chart), *words), Loader=yaml.CSafeLoader)
        return [document for document in documents if document is not None]

    def refusal(self, **values: Any) -> str:
        """Return why helm refuses values."""
        return self("template", "web", str(self.chart), self.values(**values), code=1)

    def diff(self, *words: str) -> str:
        """Return how the objects of the chart differ from those in the cluster."""
        text = self("template", "web", str(self.chart), *words)
        done = subprocess.run(
            [BINARY, "kubectl", "diff", "--namespace", NS, "-f", "-"],
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            env=self._environment,
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout


def environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CTRLHOST_")}
    return {**kept, "HOME": str(folder)}


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    if not HELM.exists():
        pytest.skip("helm is not built; `make real-tools` builds it")
    return Helm(tmp_path, environment(tmp_path))


def printed(*arguments: str) -> list[Manifest]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CTRLHOST_")}
    done = fork_server.run("manifests", "--image=host:1", f"--deploy-namespace={NS}", *arguments, env=kept)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if document is not None]


def identity(manifest: Manifest) -> tuple[str, ...]:
    metadata = manifest["metadata"]
    return manifest["apiVersion"], manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def comparable(manifests: list[Manifest]) -> dict[tuple[str, ...], Manifest]:
    """Return manifests without what helm has in another way: who manages them, and the hash of the settings."""
    objects = {identity(manifest): manifest for manifest in manifests}
    assert len(objects) == len(manifests)
    for manifest in manifests:
        metadata = manifest["metadata"]
        metadata.get("labels", {}).pop(MANAGED_BY, None)
        metadata.get("annotations", {}).pop(KEEP, None)
        for name in ("labels", "annotations"):
            if not metadata.get(name):
                metadata.pop(name, None)
        if manifest["kind"] == "Deployment":
            manifest["spec"]["template"]["metadata"]["annotations"].pop(HASH)
    objects.pop(("v1", "Namespace", "", NS), None)
    return objects


@behaviour("oncall/OC26")
@pytest.mark.parametrize(
    "arguments",
    [
        (f"--plugins={ALL}", "--leader-elect", "--monitor"),
        (f"--plugins={ALL}", "--leader-elect", "--deployments=per-plugin", "--namespace=one,two", "--admin"),
        ("--plugins=bitcoin", "--set=host.drain_timeout=9s", "--secret=bitcoin.default-image=a/b", "--cpu-limit=2"),
    ],
    ids=["all", "per-plugin", "one"],
)
def test_the_chart_has_the_printed_objects(helm: Helm, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    settings = tmp_path / "ctrlhost.toml"
    settings.write_text(SETTINGS.partition("[plugins")[0])
    arguments = (*arguments, f"--config={settings}")
    helm.write(*arguments)
    assert comparable(helm.template()) == comparable(printed(*arguments))


@behaviour("oncall/OC26")
def test_every_value_reaches_its_place_and_wrong_ones_are_refused(helm: Helm, tmp_path: Path) -> None:
    helm.write("--plugins=hostname,naming", "--leader-elect")
    by_default, chosen = helm.template(), helm.template(helm.values(**VALUES))
    (before,), (deployment,) = (of_kind(each, "Deployment") for each in (by_default, chosen))
    pod = deployment["spec"]["template"]["spec"]
    assert {name: pod[name] for name in POD} == POD
    assert POD.keys().isdisjoint(before["spec"]["template"]["spec"])
    (container,) = pod["containers"]
    (container_before,) = before["spec"]["template"]["spec"]["containers"]
    assert (deployment["spec"]["replicas"], before["spec"]["replicas"]) == (3, 2)
    assert (container["image"], container_before["image"]) == ("other:2", "host:1")
    assert container["resources"] == RESOURCES
    assert container["env"] == [*container_before["env"], *VALUES["env"]]
    assert container["args"] == [*container_before["args"], "--isolate=naming"]
    (all_isolated,) = of_kind(helm.template(helm.values(isolate=["all"])), "Deployment")
    (container_all,) = all_isolated["spec"]["template"]["spec"]["containers"]
    assert container_all["args"][-2:] == ["--isolate=hostname", "--isolate=naming"]
    (config,) = of_kind(chosen, "ConfigMap")
    assert config["data"] == {"ctrlhost.toml": SETTINGS}
    hashes = {each["spec"]["template"]["metadata"]["annotations"][HASH] for each in (before, deployment)}
    assert len(hashes) == 2
    (monitor,) = of_kind(chosen, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert of_kind(by_default, "ServiceMonitor") == []
    without = {manifest["kind"] for manifest in helm.template(helm.values(crds=False))}
    assert {manifest["kind"] for manifest in by_default} - without == {"CustomResourceDefinition"}

    for wrong, message in (
        ({"image": ""}, "image"),
        ({"replicas": "two"}, "replicas"),
        ({"isolate": ["hostnames"]}, "isolate"),
        ({"nodeselector": {}}, "nodeselector"),
        ({"nodeSelector": {"a": 1}}, "nodeSelector"),
        ({"env": [{"value": "1"}]}, "name"),
        ({"imagePullSecrets": ["registry"]}, "imagePullSecrets"),
        ({"monitor": {"enabled": True, "interval": "1s"}}, "interval"),
        ({"settings": {"host": {}}}, "settings"),
    ):
        text = helm.refusal(**wrong)
        assert "values don't meet the specifications of the schema" in text
        assert message in text
    helm("lint", "--strict", str(helm.chart))

    # The defaults of the values are what the options say, and without a Lease two pods never run at once.
    pods = tmp_path / "pods.yaml"
    pods.write_text(yaml.safe_dump({"spec": POD}))
    helm.write(
        "--plugins=hostname,naming", "--isolate=hostname", "--monitor", f"--set-pod={pods}", "--memory-limit=1Gi"
    )
    values = yaml.safe_load((helm.chart / "values.yaml").read_text())
    assert values == {
        **POD,
        "image": "host:1",
        "replicas": 1,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "env": [],
        "isolate": ["hostname"],
        "settings": "",
        "monitor": {"enabled": True, "labels": {}},
        "crds": True,
    }
    assert "replicas" in helm.refusal(replicas=2)


@pytest.fixture
def widgets(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the plugin `widgets` is installed."""
    site = tmp_path / "site"
    site.mkdir()
    distributions = Distributions(site)
    distributions.add("widgets", WIDGETS)
    return distributions.environment(HOME=str(tmp_path))


@behaviour("oncall/OC26")
def test_the_chart_is_installed_upgraded_rolled_back_and_removed(
    own_kube_apiserver: KubeApiserver, tmp_path: Path, widgets: dict[str, str]
) -> None:
    if not HELM.exists():
        pytest.skip("helm is not built; `make real-tools` builds it")
    client = own_kube_apiserver.client
    (operator,) = (row for row in published() if row.name == "prometheus-operator")
    for crd in operator.definitions():
        if crd["spec"]["names"]["kind"] == "ServiceMonitor":
            client.apply(crd)
    helm = Helm(tmp_path, {**widgets, "KUBECONFIG": str(own_kube_apiserver.kubeconfig)})
    helm.write("--plugins=widgets", "--leader-elect")
    chart = str(helm.chart)

    helm("install", "web", chart, "--create-namespace")
    first = client.get("apps/v1", "Deployment", "ctrlhost", NS)
    assert first["metadata"]["labels"][MANAGED_BY] == "Helm"
    assert helm.diff() == ""
    stored = [identity(manifest) for manifest in helm.template()]
    assert len(stored) > 8

    # The next version of the plugin: its CRD is upgraded with the release, and so are the values.
    site = tmp_path / "site"
    upgraded = WIDGETS.replace('"singular": "widget"', '"singular": "widget", "shortNames": ["wd"]')
    (site / "test_widgets.py").write_text(textwrap.dedent(upgraded))
    helm.write("--plugins=widgets", "--leader-elect")
    values = helm.values(**{**VALUES, "isolate": ["widgets"], "settings": '[host]\ndrain_timeout = "7s"\n'})
    assert "- wd" in helm.diff(values)
    helm("upgrade", "web", chart, values)
    assert helm.diff(values) == ""
    crd = client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.host.test")
    assert crd["spec"]["names"]["shortNames"] == ["wd"]
    second = client.get("apps/v1", "Deployment", "ctrlhost", NS)
    assert second["spec"]["replicas"] == 3
    monitor = client.get("monitoring.coreos.com/v1", "ServiceMonitor", "ctrlhost", NS)
    assert monitor["metadata"]["labels"]["release"] == "prometheus"

    helm("rollback", "web", "1")
    third = client.get("apps/v1", "Deployment", "ctrlhost", NS)
    assert third["spec"] == first["spec"]
    assert client.find("monitoring.coreos.com/v1", "ServiceMonitor", "ctrlhost", NS) is None
    revisions = json.loads(helm("history", "web", "--output", "json"))
    assert [revision["status"] for revision in revisions] == ["superseded", "superseded", "deployed"]

    def served() -> bool:
        return client.find("host.test/v1", "Widget", "kept", NS) is None

    eventually(served, 60, "the kind is served")
    client.create({"apiVersion": "host.test/v1", "kind": "Widget", "metadata": {"name": "kept", "namespace": NS}})
    helm("uninstall", "web")
    left = [kind for version, kind, namespace, name in stored if client.find(version, kind, name, namespace or None)]
    assert left == ["CustomResourceDefinition"]
    assert client.get("host.test/v1", "Widget", "kept", NS)["metadata"]["name"] == "kept"
