"""The CRDs of the Gateway API: large, in a protected group, with most features of schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ctrlhost_sandbox import Sandbox

from tests.support.go_modules import gateway_api_crds
from tests.support.http_client import TABLE, Api
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/gateway.networking.k8s.io/v1"


def our_crds() -> list[dict[str, Any]]:
    text = Path(__file__).with_name("gateway_api.yaml").read_text()
    return [crd for crd in yaml.load_all(text, yaml.CSafeLoader) if crd]


def experimental_crds() -> list[dict[str, Any]]:
    """A rule of this channel compares an optional with null."""
    crds = gateway_api_crds("experimental")
    assert "format.dns1123Label().validate(self)" in json.dumps(crds)
    return crds


@pytest.mark.behaviour("findings/FS13")
@pytest.mark.behaviour("sandbox/CD-33")
@pytest.mark.parametrize(
    "bundle",
    [our_crds, *(pytest.param(crds, marks=pytest.mark.real) for crds in (gateway_api_crds, experimental_crds))],
)
def test_the_gateway_api_works(bundle: Callable[[], list[dict[str, Any]]]) -> None:
    crds = bundle()
    assert {"gatewayclasses", "gateways", "httproutes"} <= {crd["spec"]["names"]["plural"] for crd in crds}
    with Sandbox() as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        for crd in crds:
            api.apply(f"{CRDS}/{crd['metadata']['name']}", crd, "kubectl").expect(201)

        def established() -> bool:
            items = api.get(CRDS).json()["items"]
            return len(items) == len(crds) and all(
                any(
                    (condition["type"], condition["status"]) == ("Established", "True")
                    for condition in item["status"]["conditions"]
                )
                for item in items
            )

        eventually(established)
        use(api)
        for crd in crds:
            # Applying it again changes nothing.
            url = f"{CRDS}/{crd['metadata']['name']}"
            before = api.get(url).json()["metadata"]["resourceVersion"]
            assert api.apply(url, crd, "kubectl").expect(200)["metadata"]["resourceVersion"] == before


def use(api: Api) -> None:
    kind = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "c"}}
    gateway_class = api.post(f"{GROUP}/gatewayclasses", {**kind, "spec": {"controllerName": "example.org/c"}}).expect(
        201
    )
    assert gateway_class["status"]["conditions"][0]["reason"] == "Pending"
    bad = {**kind, "metadata": {"name": "d"}, "spec": {"controllerName": "no slash"}}
    api.post(f"{GROUP}/gatewayclasses", bad).fails(422, "Invalid", "spec.controllerName")

    def gateway(*names: str) -> dict[str, Any]:
        listeners = [{"name": name, "port": 80, "protocol": "HTTP"} for name in names]
        spec = {"gatewayClassName": "c", "listeners": listeners, "addresses": [{"value": "10.0.0.1"}]}
        return {**kind, "kind": "Gateway", "metadata": {"name": "g"}, "spec": spec}

    gateways = f"{GROUP}/namespaces/default/gateways"
    web = api.post(gateways, gateway("web")).expect(201)
    assert web["spec"]["listeners"][0]["allowedRoutes"] == {"namespaces": {"from": "Same"}}
    assert web["spec"]["addresses"] == [{"type": "IPAddress", "value": "10.0.0.1"}]
    api.apply(f"{gateways}/h", {**gateway("a", "a"), "metadata": {"name": "h"}}, "t").fails(500)
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
    http_route = api.post(f"{GROUP}/namespaces/default/httproutes", route).expect(201)
    (rule,) = http_route["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}}]
    assert rule["backendRefs"] == [{"group": "", "kind": "Service", "name": "s", "port": 80, "weight": 1}]
    assert http_route["spec"]["parentRefs"] == [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"}]
    table = api.get(f"{GROUP}/gatewayclasses", TABLE).expect(200)
    cells = dict(zip((column["name"] for column in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert (cells["Controller"], cells["Accepted"]) == ("example.org/c", "Unknown")
