"""Files that are merged into the printed pods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.control_plane import KubeApiserver
from tests.support.manifests import Manifest, Printed, of_kind, template
from tests.support.plugin_sources import GREETER

behaviour = pytest.mark.behaviour
LABEL = "app.kubernetes.io/name"
#: All that operators usually choose, and what a strategic merge does with each kind of list.
OPTIONS: dict[str, Any] = {
    "metadata": {"labels": {"team": "shop"}, "annotations": {"sidecar": "off"}},
    "spec": {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "only", "operator": "Equal", "value": "hosts", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "registry"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["api"]}],
        "terminationGracePeriodSeconds": 99,
        "topologySpreadConstraints": [
            {"topologyKey": "kubernetes.io/hostname", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "securityContext": {"fsGroup": None, "supplementalGroups": [7]},
        "volumes": [
            {"name": "run", "emptyDir": {"sizeLimit": "1Mi", "$patch": "replace"}},
            {"name": "more", "emptyDir": {}},
        ],
        "containers": [
            {
                "name": "ctrlhost",
                "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
                "resources": {"limits": {"memory": "1Gi", "cpu": "2"}},
                "args": ["run", "--plugins=greeter"],
                "ports": [{"containerPort": 8485, "$patch": "delete"}, {"containerPort": 9999, "name": "more"}],
                "livenessProbe": {"$patch": "replace", "tcpSocket": {"port": "probes"}},
                "volumeMounts": [{"mountPath": "/more", "name": "more"}],
            },
            {"name": "beside", "image": "beside:1"},
        ],
    },
}


@pytest.fixture(autouse=True)
def plugins(distributions: Any) -> None:
    distributions.add("greeter", GREETER)


@pytest.fixture
def pod_file(tmp_path: Path) -> Callable[[Any], str]:
    def write(content: Any) -> str:
        file = tmp_path / "pod.yaml"
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return f"--set-pod={file}"

    return write


@behaviour("oncall/OC28")
@pytest.mark.parametrize("arguments", [(), ("--leader-elect", "--deployments=per-plugin")])
def test_a_file_is_merged_as_the_server_merges_it(
    printed: Printed, pod_file: Callable[[Any], str], kube_apiserver: KubeApiserver, arguments: tuple[str, ...]
) -> None:
    client = kube_apiserver.client

    def created(manifests: list[Manifest], name: str) -> Manifest:
        (deployment,) = of_kind(manifests, "Deployment")
        metadata = {"name": name, "namespace": "default"}
        return client.create({**deployment, "metadata": metadata})

    plain, merged = (printed("--plugins=greeter", *arguments, *more) for more in ((), (pod_file(OPTIONS),)))
    assert [of for of in merged if of["kind"] != "Deployment"] == [of for of in plain if of["kind"] != "Deployment"]
    name = f"merged-{len(arguments)}"
    ours = created(merged, name)
    created(plain, f"{name}-by-the-server")
    theirs = client.patch(
        "apps/v1", "Deployment", f"{name}-by-the-server", "default", {"spec": {"template": OPTIONS}}, type="strategic"
    )
    assert by_name(ours["spec"]["template"]) == by_name(theirs["spec"]["template"])
    for deployment in (ours, theirs):
        client.delete("apps/v1", "Deployment", deployment["metadata"]["name"], "default")


def by_name(value: Any) -> Any:
    """Return a pod template with its lists of mappings in one order, which the server does not keep."""
    if isinstance(value, dict):
        return {name: by_name(below) for name, below in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return sorted(map(by_name, value), key=repr)
    return value


@behaviour("oncall/OC28")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nodeSelector: {a: b}", "unknown field `nodeSelector`"),
        ("metadata: {name: other}", "unknown field `metadata.name`"),
        ("spec: [1]", "spec: must be a mapping"),
        ("- 1", "must be a mapping"),
        ("a: [", "invalid YAML"),
        ("spec: {containers: [{image: other}]}", "spec.containers: each item needs its `name`"),
        ("spec: {tolerations: null, $setElementOrder/containers: []}", "unknown directive"),
        ("spec: {affinity: {$patch: remove}}", "spec.affinity.$patch: unknown directive"),
        (f"metadata: {{labels: {{{LABEL}: other}}}}", f"metadata.labels.{LABEL}: the label selects the pods"),
        (f"metadata: {{labels: {{{LABEL}: null}}}}", f"metadata.labels.{LABEL}: the label selects the pods"),
        (None, "no such file"),
    ],
)
def test_mistakes_are_one_line(ctrlhost: Any, tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "pod.yaml"
    if content is not None:
        file.write_text(content)
    result = ctrlhost("manifests", "--image=host:1", "--plugins=greeter", f"--set-pod={file}")
    assert (result.returncode, result.stdout) == (2, "")
    error, *hint = result.stderr.splitlines()
    assert error.startswith("error: --set-pod")
    assert message in error
    assert [line.partition(":")[0] for line in hint] in ([], ["", "hint"])


@behaviour("oncall/OC28")
def test_an_empty_file_changes_nothing(printed: Printed, pod_file: Callable[[Any], str]) -> None:
    assert printed("--plugins=greeter", pod_file("spec: {}")) == printed("--plugins=greeter")
    pods = template(printed("--plugins=greeter", pod_file("spec: {priorityClassName: high}")))
    assert pods["spec"]["priorityClassName"] == "high"
