"""A kind in three versions whose objects a plugin converts, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ctrlhost
from tests.support.declared import declared
from tests.support.http_client import Api
from tests.support.waiting import eventually
from tests.support.webhook_host import WebhookHost

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

behaviour = pytest.mark.behaviour
GROUP = "convert.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class OldSpec(msgspec.Struct):
    size: str


class Spec(msgspec.Struct):
    width: int
    height: int


@ctrlhost.resource(f"{GROUP}/v1alpha1", kind="Panel")
class OldPanel(ctrlhost.Model[OldSpec, ctrlhost.ModelStatus]):
    pass


@ctrlhost.resource(f"{GROUP}/v1beta1", kind="Panel")
class MiddlePanel(ctrlhost.Model[Spec, ctrlhost.ModelStatus]):
    pass


@ctrlhost.resource(f"{GROUP}/v1", kind="Panel", storage=True)
class Panel(ctrlhost.Model[Spec, ctrlhost.ModelStatus]):
    pass


def panels() -> Any:
    """Return a plugin with conversions between neighbours; that between the ends goes through the middle."""
    plugin = declared("panels")

    @plugin.convert(Panel, source=OldPanel, target=MiddlePanel)
    def up(obj: Any) -> Any:
        width, _, height = obj["spec"]["size"].partition("x")
        labels = {**obj["metadata"].get("labels", {}), "converted": "yes"}
        metadata = {**obj["metadata"], "labels": labels, "name": "renamed", "uid": "other"}
        return {**obj, "metadata": metadata, "spec": {"width": int(width), "height": int(height)}}

    @plugin.convert(Panel, source=MiddlePanel, target=OldPanel)
    def down(obj: Any) -> Any:
        if obj["metadata"]["name"] == "broken":
            raise ValueError("secret of the plugin")
        return {**obj, "spec": {"size": f"{obj['spec']['width']}x{obj['spec']['height']}"}}

    def same(obj: Any) -> Any:
        return obj

    plugin.convert(Panel, source=MiddlePanel, target=Panel)(same)
    plugin.convert(Panel, source=Panel, target=MiddlePanel)(lambda obj: dict(obj))
    return plugin


class Panels:
    """The kind on one server, whose host converts."""

    def __init__(self, host: WebhookHost, plugin: Any) -> None:
        self.host, self.api = host, host.api
        (crd,) = plugin.ctrlhost_crds()
        webhook = crd["spec"]["conversion"]["webhook"]
        assert crd["spec"]["conversion"]["strategy"] == "Webhook"
        path = f"/convert/{GROUP}/panels"
        webhook["clientConfig"] = {"url": f"{host.url}{path}", "caBundle": host.certificate.bundle}
        self.crd = crd
        self.api.post(CRDS, crd).expect(201)
        for version in ("v1alpha1", "v1beta1", "v1"):
            eventually(lambda version=version: self.api.get(self.path(version)).status == 200, pause=0.02)

    def path(self, version: str, name: str = "") -> str:
        return self.host.path("panels", name, f"/apis/{GROUP}/{version}")

    def end(self) -> None:
        self.api.delete(f"{CRDS}/panels.{GROUP}").expect(200)


@pytest.fixture(scope="module")
def kind(serve: Callable[..., WebhookHost], server: ControlPlane) -> Iterator[Panels]:
    plugin = panels()
    kind = Panels(serve(plugin), plugin)
    yield kind
    kind.end()


def old(name: str, size: str, **metadata: Any) -> dict[str, Any]:
    content = {"name": name, **metadata}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Panel", "metadata": content, "spec": {"size": size}}


def shape(obj: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return obj["apiVersion"].rpartition("/")[2], obj["spec"]


@behaviour("webhooks/WH17")
def test_an_object_has_the_shape_of_the_version_that_is_asked_for(kind: Panels) -> None:
    created = kind.api.post(kind.path("v1alpha1"), old("one", "3x4", annotations={"a": "1"})).expect(201)
    assert shape(created) == ("v1alpha1", {"size": "3x4"})
    shapes = {"v1alpha1": {"size": "3x4"}, "v1beta1": {"width": 3, "height": 4}, "v1": {"width": 3, "height": 4}}
    metadata = created["metadata"]
    # Of the metadata a conversion changes labels and annotations only, whatever it returns.
    assert (metadata["name"], metadata["labels"], metadata["annotations"]) == ("one", {"converted": "yes"}, {"a": "1"})
    for version, spec in shapes.items():
        got = kind.api.get(kind.path(version, "one")).expect(200)
        assert shape(got) == (version, spec)
        assert {**got["metadata"], "managedFields": None} == {**metadata, "managedFields": None}
        (item,) = kind.api.get(kind.path(version), labelSelector="converted=yes").expect(200)["items"]
        assert shape(item) == (version, spec)
        events = kind.api.watch(kind.path(version), fieldSelector="metadata.name=one")
        assert shape(events.next()["object"]) == (version, spec)
        events.close()


@behaviour("webhooks/WH17")
def test_applies_and_patches_work_in_both_versions(kind: Panels) -> None:
    kind.api.post(kind.path("v1alpha1"), old("two", "1x2")).expect(201)
    new = {"apiVersion": f"{GROUP}/v1", "kind": "Panel", "metadata": {"name": "two"}, "spec": {"width": 5, "height": 6}}
    applied = kind.api.apply(kind.path("v1", "two"), new, "test", force="true").expect(200)
    assert shape(applied) == ("v1", {"width": 5, "height": 6})
    patched = kind.api.patch(kind.path("v1", "two"), {"spec": {"height": 7}}).expect(200)
    assert shape(patched) == ("v1", {"width": 5, "height": 7})
    patched = kind.api.patch(kind.path("v1alpha1", "two"), {"spec": {"size": "8x9"}}).expect(200)
    assert shape(patched) == ("v1alpha1", {"size": "8x9"})
    applied = kind.api.apply(kind.path("v1alpha1", "two"), old("two", "10x11"), "other", force="true").expect(200)
    assert shape(applied) == ("v1alpha1", {"size": "10x11"})
    assert shape(kind.api.get(kind.path("v1", "two")).expect(200)) == ("v1", {"width": 10, "height": 11})


def stored_as(api: Api, crd: dict[str, Any], version: str) -> None:
    """Store objects in another version from now on."""
    versions = [{**each, "storage": each["name"] == version} for each in crd["spec"]["versions"]]
    api.patch(f"{CRDS}/{crd['metadata']['name']}", {"spec": {"versions": versions}}).expect(200)


@behaviour("webhooks/WH17")
def test_stored_objects_are_migrated_to_another_version(kind: Panels) -> None:
    kind.api.post(kind.path("v1"), {**old("three", ""), "apiVersion": f"{GROUP}/v1", "spec": {"width": 1, "height": 2}})
    stored_as(kind.api, kind.crd, "v1alpha1")
    try:
        # What was stored before is read as ever, and written in the new version by an update that changes nothing.
        got = eventually(lambda: kind.api.get(kind.path("v1", "three"))).expect(200)
        assert shape(got) == ("v1", {"width": 1, "height": 2})
        put = kind.api.put(kind.path("v1", "three"), got).expect(200)
        assert shape(put) == ("v1", {"width": 1, "height": 2})
        assert shape(kind.api.get(kind.path("v1alpha1", "three")).expect(200)) == ("v1alpha1", {"size": "1x2"})
    finally:
        stored_as(kind.api, kind.crd, "v1")
    versions = kind.api.get(f"{CRDS}/panels.{GROUP}").expect(200)["status"]["storedVersions"]
    assert set(versions) == {"v1", "v1alpha1"}


@behaviour("webhooks/WH18")
def test_a_conversion_that_fails_names_the_object(kind: Panels, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("whole", "broken"):
        panel = {**old(name, ""), "apiVersion": f"{GROUP}/v1", "spec": {"width": 1, "height": 2}}
        kind.api.post(kind.path("v1"), panel).expect(201)
    try:
        name = f"Panel {kind.host.namespace}/broken"
        wanted = f"plugin panels: {name}: the conversion from v1beta1 to v1alpha1 failed"
        message = kind.api.get(kind.path("v1alpha1", "broken")).fails(500)["message"]
        assert wanted in message
        assert "secret" not in message
        # One object is enough for a list. A kube-apiserver may find out before, when it fills its watch cache.
        listed = kind.api.get(kind.path("v1alpha1"))
        if kind.host.server.kind == "kube-apiserver" and listed.status == 429:
            assert listed.json()["message"] == "storage is (re)initializing"
        else:
            assert wanted in listed.fails(500)["message"]
        objects = [kind.api.get(kind.path("v1", each)).expect(200) for each in ("whole", "broken")]
        request = {"uid": "42", "desiredAPIVersion": f"{GROUP}/v1alpha1", "objects": objects}
        review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
        status, body = kind.host.listener.send(f"/convert/{GROUP}/panels", json.dumps(review).encode())
        response = json.loads(body)["response"]
        assert (status, response["result"]) == (200, {"status": "Failure", "message": wanted})
        assert response["convertedObjects"] == []
        assert "secret of the plugin" in caplog.text
        assert kind.api.get(kind.path("v1", "broken")).status == 200
    finally:
        kind.api.delete(kind.path("v1", "broken")).expect(200)
    eventually(lambda: kind.api.get(kind.path("v1alpha1")).status == 200, pause=0.02)


@behaviour("webhooks/WH17")
def test_conversions_are_counted_like_other_webhooks(kind: Panels) -> None:
    counted = f'controller_runtime_webhook_requests_total{{code="200",webhook="/convert/{GROUP}/panels"}} '
    (line,) = [line for line in kind.host.get("/metrics")[1].splitlines() if line.startswith(counted)]
    assert float(line.rpartition(" ")[2]) > 0
