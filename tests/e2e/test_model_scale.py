"""What `@ctrlhost.resource` says beside the schema, as kubectl uses it."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import msgspec
import pytest

import ctrlhost
from tests.support.control_plane import BINARY, require_kube_apiserver
from tests.support.waiting import create_eventually, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.control_plane import ControlPlane


class Spec(msgspec.Struct, frozen=True):
    size: int = 1
    color: str = "red"


class Status(ctrlhost.ModelStatus):
    readyReplicas: int | None = None  # noqa: N815 - the name on the wire
    selector: str | None = None


@ctrlhost.resource(
    "scaled.example.com/v1",
    categories=["all"],
    scale=("spec.size", "status.readyReplicas", "status.selector"),
    selectable_fields=["spec.color"],
    deprecated="scaled.example.com/v1 Pool is deprecated: use v2",
    columns=[
        ctrlhost.Column("Size", ".spec.size", "integer", format="int32"),
        ctrlhost.Column("Color", ".spec.color", priority=1),
    ],
)
class Pool(ctrlhost.Model[Spec, Status]):
    pass


@pytest.mark.real
@pytest.mark.behaviour("findings3/NA27")
def test_kubectl_scales_lists_and_selects_objects_of_a_model(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    require_kube_apiserver()
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "HOME": str(tmp_path)}

    def kubectl(*words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [BINARY, "kubectl", "-n", namespace, *words],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done

    client = ctrlhost.Client.load(str(control_plane.kubeconfig))
    crd = ctrlhost.crd_of(Pool)
    (version,) = crd["spec"]["versions"]
    assert version["additionalPrinterColumns"] == [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "format": "int32"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
    ]
    client.apply(crd, field_manager="test")
    for name, color in (("web", "red"), ("db", "blue")):
        metadata = {"name": name, "namespace": namespace}
        pool = {"apiVersion": "scaled.example.com/v1", "kind": "Pool", "metadata": metadata, "spec": {"color": color}}
        create_eventually(client, pool)
    status = {"status": {"readyReplicas": 1, "selector": "app=web"}}
    client.patch("scaled.example.com/v1", "Pool", "web", namespace, status, subresource="status")
    kubectl("scale", "pools.scaled.example.com/web", "--replicas=3")
    assert client.get("scaled.example.com/v1", "Pool", "web", namespace)["spec"]["size"] == 3
    # What an autoscaler reads.
    path = f"/apis/scaled.example.com/v1/namespaces/{namespace}/pools/web/scale"
    scale = json.loads(kubectl("get", "--raw", path).stdout)
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 1, "selector": "app=web"})
    kubectl("autoscale", "pools.scaled.example.com/web", "--min=1", "--max=5")
    autoscaler = client.get("autoscaling/v2", "HorizontalPodAutoscaler", "web", namespace)
    assert autoscaler["spec"]["scaleTargetRef"] == {
        "apiVersion": "scaled.example.com/v1",
        "kind": "Pool",
        "name": "web",
    }
    # kubectl asks discovery for the category.
    everything = eventually(
        lambda: (done := kubectl("get", "all")) and "pool.scaled.example.com/web" in done.stdout and done
    )
    assert "Warning: scaled.example.com/v1 Pool is deprecated: use v2" in everything.stderr
    header, *rows = kubectl("get", "pools.scaled.example.com", "--field-selector=spec.color=blue").stdout.splitlines()
    assert header.split() == ["NAME", "SIZE"]
    assert [row.split() for row in rows] == [["db", "1"]]
    wide = kubectl("get", "pools.scaled.example.com", "--output=wide").stdout.splitlines()
    assert wide[0].split() == ["NAME", "SIZE", "COLOR"]
    client.close()
