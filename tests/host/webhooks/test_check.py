"""What `ctrlhost check` finds of webhooks: lossy conversions, and what the API server does not know."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest

import ctrlhost
from ctrlhost.authoring.check import OfflineCheck
from ctrlhost.authoring.check_server import check_on_server
from ctrlhost.authoring.generated_objects import generated, pruned
from ctrlhost.authoring.lossy_conversions import Loss, losses
from ctrlhost.config.load import Configuration
from ctrlhost.server.authority import Authority
from ctrlhost.webhooks.configurations import API_VERSION, VALIDATING
from tests.support.declared import declared
from tests.support.waiting import eventually
from tests.support.webhook_replicas import SERVICE, Replicas, colors

if TYPE_CHECKING:
    from ctrlhost.authoring.findings import Finding
    from tests.support.control_plane import ControlPlane

behaviour = pytest.mark.behaviour
GROUP = "check.example.com"


class Part(msgspec.Struct):
    name: str = ""
    heavy: bool = False


class OldSpec(msgspec.Struct):
    size: int
    color: Literal["red", "blue"] = "red"
    parts: list[Part] = []
    labels: dict[str, str] = {}


class Spec(msgspec.Struct):
    width: int
    parts: list[Part] = []
    color: Literal["red", "blue"] = "red"


@ctrlhost.resource(f"{GROUP}/v1alpha1", kind="Panel")
class OldPanel(ctrlhost.Model[OldSpec, ctrlhost.ModelStatus]):
    pass


@ctrlhost.resource(f"{GROUP}/v1", kind="Panel", storage=True)
class Panel(ctrlhost.Model[Spec, ctrlhost.ModelStatus]):
    pass


def panels(up: Any, down: Any) -> Any:
    """Return a plugin with these conversions."""
    plugin = declared("panels")
    plugin.convert(Panel, source=OldPanel, target=Panel)(up)
    plugin.convert(Panel, source=Panel, target=OldPanel)(down)
    return plugin


def lossy() -> Any:
    """Return a plugin whose conversions forget labels and the weight of parts, and one color."""

    def up(obj: Any) -> Any:
        spec = obj["spec"]
        parts = [{"name": part["name"]} for part in spec.get("parts", ())]
        return {**obj, "spec": {"width": spec["size"], "parts": parts, "color": spec.get("color", "red")}}

    def down(obj: Any) -> Any:
        spec = obj["spec"]
        # The server drops `width`, which the version has not.
        return {**obj, "spec": {**spec, "size": spec["width"], "color": "red"}}

    return panels(up, down)


def faithful() -> Any:
    """Return a plugin whose conversions keep what has no field in an annotation."""

    def up(obj: Any) -> Any:
        spec = dict(obj["spec"])
        metadata = dict(obj["metadata"])
        if labels := spec.pop("labels", None):
            kept = msgspec.json.encode(labels).decode()
            metadata["annotations"] = {**metadata.get("annotations", {}), "labels": kept}
        return {**obj, "metadata": metadata, "spec": {**spec, "width": spec["size"]}}

    def down(obj: Any) -> Any:
        spec = {**obj["spec"], "size": obj["spec"]["width"]}
        if kept := obj["metadata"].get("annotations", {}).get("labels"):
            spec["labels"] = msgspec.json.decode(kept)
        return {**obj, "spec": spec}

    return panels(up, down)


def picky() -> Any:
    """Return a plugin whose functions take no generated object."""

    def refuse(_obj: Any) -> Any:
        raise ValueError("not such a one")

    return panels(refuse, refuse)


def checked(plugin: Any) -> OfflineCheck:
    empty: dict[str, Any] = {"plugins": {}, "controllers": {}, "supervision": {}, "informers": {}, "host": {}}
    return OfflineCheck([plugin], Configuration(empty, ""), [plugin.__name__], kinds=False)


def of(findings: list[Finding], check: str) -> list[str]:
    return [str(finding) for finding in findings if finding.check == check]


@behaviour("webhooks/WH19")
def test_a_lossy_conversion_is_a_warning_with_the_fields() -> None:
    prefix = "warning panels conversion: panels.check.example.com:"
    assert of(checked(lossy()).findings, "conversion") == [
        f"{prefix} v1 to v1alpha1 and back loses spec.parts[].heavy, spec.color",
        f"{prefix} v1alpha1 to v1 and back loses spec.parts[].heavy, spec.labels, spec.color",
    ]
    assert of(checked(faithful()).findings, "conversion") == [
        "ok panels conversion: panels.check.example.com: nothing is lost"
    ]
    (line,) = of(checked(picky()).findings, "conversion")
    assert line.startswith("ok panels conversion: ")
    assert line.endswith("but for v1 to v1alpha1, v1alpha1 to v1: the functions take no generated object")


def test_generated_objects_fit_their_schema() -> None:
    plugin = checked(faithful()).plugins[0]
    (crd,) = plugin.crds
    (converters,) = plugin.context.conversions
    schemas = {version["name"]: version["schema"]["openAPIV3Schema"] for version in crd["spec"]["versions"]}
    objects = [generated(schemas["v1alpha1"], number)["spec"] for number in range(2)]
    assert [obj["color"] for obj in objects] == ["red", "blue"]
    assert objects[0]["parts"] == [{"name": "text-1", "heavy": True}]
    assert pruned({"spec": {"width": 1, "size": 2}, "other": 3}, schemas["v1"]) == {"spec": {"width": 1}}
    assert list(losses(converters, crd)) == [Loss("v1", "v1alpha1", []), Loss("v1alpha1", "v1", [])]


@pytest.fixture
def replicas(server: ControlPlane) -> Iterator[Replicas]:
    with Replicas(server) as replicas:
        yield replicas


@behaviour("webhooks/WH19")
def test_what_the_server_does_not_know_is_found(replicas: Replicas) -> None:
    (plugin,) = checked(colors()).plugins

    def found(webhook: str = "no-blue") -> list[str]:
        findings = check_on_server(plugin, replicas.client)
        return [line for line in of(list(findings), "webhook") if f"webhook {webhook} " in line]

    assert found() == [
        "error colors webhook: webhook no-blue is in no ValidatingWebhookConfiguration, so it is not called"
    ]
    assert found("red") == [
        "error colors webhook: webhook red is in no MutatingWebhookConfiguration, so it is not called"
    ]
    replicas.apply()
    name = dict(replicas.names)[VALIDATING]
    where = f"webhook no-blue in {VALIDATING} {name}"
    assert found()[0] == f"error colors webhook: {where} has no certificates to trust yet"
    replicas.started()
    replicas.trusted()
    service = f"{replicas.namespace}/{SERVICE}"
    missing = f"warning colors webhook: {where}: Service {service} has no endpoints that are ready"
    assert found() == [missing]
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "hooks",
            "namespace": replicas.namespace,
            "labels": {"kubernetes.io/service-name": SERVICE},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}],
        "ports": [{"name": "webhooks", "port": 9443, "protocol": "TCP"}],
    }
    replicas.client.create(endpoints)
    assert found() == [f"ok colors webhook: {where} is registered"]
    # Another selector, which the host leaves alone.
    live = replicas.live()
    live["webhooks"][0]["namespaceSelector"] = {}
    replicas.client.replace(live)
    text = f"matches objects of the host's own namespace {replicas.namespace}: a host that is down stays down"
    assert found() == [f"error colors webhook: {where} {text}"]


@behaviour("webhooks/WH19")
def test_another_authority_is_found(replicas: Replicas) -> None:
    (plugin,) = checked(colors()).plugins
    host = replicas.started()
    replicas.apply()
    replicas.trusted()
    host.stop(5)
    live = replicas.live()
    other = Authority.new(time.time()).bundle(time.time())
    live["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(other).decode()
    replicas.client.replace(live)
    lines = of(list(check_on_server(plugin, replicas.client)), "webhook")
    secret = f"Secret {replicas.namespace}/ctrlhost-webhook-ca"
    assert any(f"trusts another authority than that of {secret}" in line for line in lines)
    replicas.client.patch("v1", "Secret", "ctrlhost-webhook-ca", replicas.namespace, {"data": {"tls.crt": "YQ=="}})
    lines = of(list(check_on_server(plugin, replicas.client)), "webhook")
    assert any(f"{secret}: tls.crt and tls.key: they are no certificate" in line for line in lines)
    eventually(lambda: replicas.client.find(API_VERSION, VALIDATING, live["metadata"]["name"]))
