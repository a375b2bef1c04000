"""The CRDs of the Gateway API: large, in a protected group, with everything that schemas can say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrlhost.sandbox import Sandbox
from tests.support.http_client import TABLE, Api
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/gateway.networking.k8s.io/v1"
MODULE = "sigs.k8s.io/gateway-api@v1.6.3"
TOOLCHAIN = Path(__file__).parents[2] / "go/bin/toolchain/bin/go"


def our_bundle(_: Path) -> str:
    return Path(__file__).with_name("gateway_api.yaml").read_text()


def real_bundle(directory: Path, channel: str = "standard") -> str:
    """A channel as its authors publish it, as a Go module."""
    go = str(TOOLCHAIN) if TOOLCHAIN.exists() else shutil.which("go")
    if go is None:
        pytest.skip("there is no Go toolchain to fetch the Gateway API's module with")
    command = [go, "mod", "download", "-json", MODULE]
    answer = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=90, check=False)
    if answer.returncode:
        reason = f"the Gateway API's module can not be had: {answer.stdout[-300:]}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    files = sorted(Path(json.loads(answer.stdout)["Dir"], "config/crd", channel).glob("*.yaml"))
    return "\n---\n".join(file.read_text() for file in files)


def experimental_bundle(directory: Path) -> str:
    """A rule of this channel compares an optional with null."""
    bundle = real_bundle(directory, "experimental")
    assert "format.dns1123Label().validate(self)" in bundle
    return bundle


@pytest.mark.behaviour("findings/FS13")
@pytest.mark.behaviour("sandbox/CD-33")
@pytest.mark.parametrize("bundle", [our_bundle, real_bundle, experimental_bundle])
def test_the_gateway_api_is_taken(bundle: Any, tmp_path: Path) -> None:
    documents = yaml.load_all(bundle(tmp_path), yaml.CSafeLoader)
    crds = [one for one in documents if one and one.get("kind") == "CustomResourceDefinition"]
    assert {"gatewayclasses", "gateways", "httproutes"} <= {crd["spec"]["names"]["plural"] for crd in crds}
    with Sandbox() as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        for crd in crds:
            api.apply(f"{CRDS}/{crd['metadata']['name']}", crd, "kubectl").expect(201)

        def established() -> bool:
            items = api.get(CRDS).json()["items"]
            return len(items) == len(crds) and all(
                any((one["type"], one["status"]) == ("Established", "True") for one in item["status"]["conditions"])
                for item in items
            )

        eventually(established)
        use(api)
        for crd in crds:
            # The same again changes nothing.
            url = f"{CRDS}/{crd['metadata']['name']}"
            before = api.get(url).json()["metadata"]["resourceVersion"]
            assert api.apply(url, crd, "kubectl").expect(200)["metadata"]["resourceVersion"] == before


def use(api: Api) -> None:
    kind = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "c"}}
    made = api.post(f"{GROUP}/gatewayclasses", {**kind, "spec": {"controllerName": "example.org/c"}}).expect(201)
    assert made["status"]["conditions"][0]["reason"] == "Pending"
    bad = {**kind, "metadata": {"name": "d"}, "spec": {"controllerName": "no slash"}}
    api.post(f"{GROUP}/gatewayclasses", bad).fails(422, "Invalid", "spec.controllerName")

    def gateway(*names: str) -> dict[str, Any]:
        listeners = [{"name": name, "port": 80, "protocol": "HTTP"} for name in names]
        spec = {"gatewayClassName": "c", "listeners": listeners, "addresses": [{"value": "10.0.0.1"}]}
        return {**kind, "kind": "Gateway", "metadata": {"name": "g"}, "spec": spec}

    gateways = f"{GROUP}/namespaces/default/gateways"
    made = api.post(gateways, gateway("web")).expect(201)
    assert made["spec"]["listeners"][0]["allowedRoutes"] == {"namespaces": {"from": "Same"}}
    assert made["spec"]["addresses"] == [{"type": "IPAddress", "value": "10.0.0.1"}]
    api.apply(f"{gateways}/h", {**gateway("a", "a"), "metadata": {"name": "h"}}, "t").fails(422)
    route = {
        **kind,
        "kind": "HTTPRoute",
        "metadata": {"name": "r"},
        "spec": {
            "parentRefs": [{"name": "g"}],
            "hostnames": ["*.example.org"],
            "rules": [{"backendRefs": [{"name": "s", "port": 80}]}],
        },
    }
    made = api.post(f"{GROUP}/namespaces/default/httproutes", route).expect(201)
    (rule,) = made["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}}]
    assert rule["backendRefs"] == [{"group": "", "kind": "Service", "name": "s", "port": 80, "weight": 1}]
    assert made["spec"]["parentRefs"] == [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"}]
    table = api.get(f"{GROUP}/gatewayclasses", TABLE).expect(200)
    cells = dict(zip((one["name"] for one in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert (cells["Controller"], cells["Accepted"]) == ("example.org/c", "Unknown")
