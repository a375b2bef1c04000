"""What `ctrlhost manifests --kopf` prints, and whether an operator can run with its rights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ctrlhost_kopf as kopf
import pytest
import yaml
from ctrlhost_kopf.plugin import Operator

from ctrlhost import NotFound
from ctrlhost.testing import HostUnderTest
from plugins.kopf.tests.operators import API_VERSION, KIND, Calls, example, foreign, install, operator
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

behaviour = pytest.mark.behaviour

CALLS = """
    import kopf
    from kubernetes import client

    @kopf.on.create("kopf.dev", "v1", "kopfexamples")
    def created(name, namespace, **_):
        api = client.CoreV1Api()
        api.read_namespaced_secret(name, namespace)
        api.list_pod_for_all_namespaces()
        api.patch_namespaced_pod_status(name, namespace, {})
        client.CustomObjectsApi().delete_namespaced_custom_object(
            group="example.com", version="v1", plural="widgets", namespace=namespace, name=name
        )
"""


@behaviour("kopf/KO16")
def test_the_file_is_an_argument_and_client_calls_are_hinted(tmp_path: Path) -> None:
    path = operator(tmp_path / "operator", "calling", CALLS, Calls(tmp_path))
    words = [sys.executable, "-m", "ctrlhost", "manifests", "--image=image", "--kopf", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    documents = list(yaml.safe_load_all(done.stdout))
    (deployment,) = [document for document in documents if document["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--kopf=calling.py" in container["args"]
    assert not [argument for argument in container["args"] if argument.startswith("--plugins")]
    rules = [rule for document in documents if document["kind"] == "ClusterRole" for rule in document["rules"]]
    (rule,) = [rule for rule in rules if "kopfexamples" in rule.get("resources", ())]
    assert rule["apiGroups"] == ["kopf.dev"]
    assert {"get", "list", "watch", "patch"} <= set(rule["verbs"])
    line = len(path.read_text().splitlines())
    hints = [hint for hint in done.stderr.splitlines() if "calling: add the right to" in hint]
    assert [hint.partition(" to ")[2] for hint in hints] == [
        f"get secrets (calling.py:{line - 5})",
        f"list pods (calling.py:{line - 4})",
        f"patch pods/status (calling.py:{line - 3})",
        f"delete widgets.example.com (calling.py:{line - 2})",
    ]


@behaviour("kopf/KO16")
@pytest.mark.parametrize(
    ("names", "group", "plurals"),
    [
        (["pods"], "*", ["pods"]),
        # A plural, or the singular.
        (["pod"], "*", ["pod", "pods"]),
        (["ingress.networking.k8s.io"], "networking.k8s.io", ["ingress", "ingresses"]),
        (["networking.k8s.io", "NetworkPolicy"], "networking.k8s.io", ["networkpolicies"]),
        (["", "v1", "Endpoints"], "", ["endpoints"]),
        (["kopf.dev", kopf.EVERYTHING], "kopf.dev", ["*"]),
    ],
    ids=lambda value: str(value[-1]) if isinstance(value, list) else "",
)
def test_rights_are_for_the_plurals_that_a_name_can_mean(
    registry: kopf.OperatorRegistry, names: list[Any], group: str, plurals: list[str]
) -> None:
    kopf.on.event(*names, registry=registry)(lambda **_: None)
    *_, permission = Operator(registry, "operator").ctrlhost_permissions()
    assert permission.group == group
    assert [name for name in permission.resources if "/" not in name] == plurals
    assert [name for name in permission.resources if "/" in name] == [f"{name}/status" for name in plurals]


OPERATOR = """
    import ctrlhost_kopf as kopf

    @kopf.on.create("kopfexamples")
    def created(body, patch, **_):
        kopf.info(body, reason="Created", message="as it should be")
        patch.spec["created"] = "yes"
        return "yes"

    @kopf.on.event("kopf.dev", "v1", "kopfexamples")
    def seen(**_): ...

    @kopf.on.delete("kopfexamples")
    def deleted(name, **_):
        record("deleted", name)

    @kopf.timer("kopfexamples", interval=60)
    async def ticked(**_):
        return "yes"
"""


@behaviour("kopf/KO16")
def test_an_operator_runs_with_the_rights_that_are_printed(
    ctrlhost_host: Callable[..., HostUnderTest], control_plane: ControlPlane, tmp_path: Path
) -> None:
    install(control_plane.client)
    calls = Calls(tmp_path)
    path = operator(tmp_path / "operator", "limited", OPERATOR, calls)
    host = ctrlhost_host(foreign(path), server=control_plane, least_privilege=True)
    client, namespace = host.client, host.namespace
    client.create(example("a", namespace))

    def handled() -> bool:
        obj: dict[str, Any] = client.get(API_VERSION, KIND, "a", namespace)
        status = obj.get("status", {})
        return status.get("created") == status.get("ticked") == obj["spec"].get("created") == "yes"

    eventually(handled, pause=0.05)
    events = eventually(lambda: list(client.list("events.k8s.io/v1", "Event", namespace=namespace)), pause=0.05)
    assert "Created" in {event["reason"] for event in events}
    client.delete(API_VERSION, KIND, "a", namespace)
    calls.wait("deleted", "a")

    def gone() -> bool:
        try:
            client.get(API_VERSION, KIND, "a", namespace)
        except NotFound:
            return True
        return False

    eventually(gone, pause=0.05)
