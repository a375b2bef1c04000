"""CRDs that are deleted and made again with another scope, plural or version, under a running controller."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost.errors import UnknownKind
from tests.support.declared import declared
from tests.support.objects import crd
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
GROUP = "replaced.test"


def definition(kind: str, *, scope: str = "Namespaced", plural: str = "", version: str = "v1") -> dict[str, Any]:
    body = crd(GROUP, kind, scope)
    names, (served,) = body["spec"]["names"], body["spec"]["versions"]
    names["plural"] = plural or names["plural"]
    body["metadata"]["name"] = f"{names['plural']}.{GROUP}"
    served |= {"name": version, "subresources": {"status": {}}}
    return body


def replace(host: Any, former: dict[str, Any], new: dict[str, Any]) -> None:
    """Replace a CRD, once the former one has gone with its objects."""
    at, name = (former["apiVersion"], former["kind"]), former["metadata"]["name"]
    host.client.delete(*at, name)
    eventually(lambda: host.client.find(*at, name) is None)
    host.client.create(new)
    version = new["spec"]["versions"][0]["name"]
    what = f"/apis/{GROUP}/{version}"

    def is_served() -> bool:
        # One that knows no kinds yet.
        client = ctrlhost.Client.over(host.client.transport)
        try:
            resource = client.resource(f"{GROUP}/{version}", new["spec"]["names"]["kind"])
        except UnknownKind:
            return False
        return bool(resource.plural == new["spec"]["names"]["plural"])

    eventually(is_served, what=what)


def thing(kind: str, name: str = "a", version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": name}}


CHANGES = {
    "to cluster": ({}, {"scope": "Cluster"}),
    "to namespaced": ({"scope": "Cluster"}, {}),
    "plural": ({}, {"plural": "thingies"}),
}


@behaviour("findings3/NC10")
@pytest.mark.parametrize("change", CHANGES)
def test_a_controller_continues_with_a_replaced_crd(ctrlhost_host: Any, change: str) -> None:
    plugin, cached = declared("demo"), []
    before, after = CHANGES[change]

    @plugin.controller(f"{GROUP}/v1/Thing", name="things", owns=[f"{GROUP}/v1/Part"])
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ctx.ensure(thing("Part", obj.name))
        cached.append([part.key for part in ctx.cache(f"{GROUP}/v1/Part").owned()])
        ctx.status.set(phase="done")

    host = ctrlhost_host(plugin)
    crds = {kind: definition(kind, **before) for kind in ("Thing", "Part")}
    for body in crds.values():
        host.client.create(body)
    eventually(lambda: all(controller.has_synced() for controller in host.controllers.values()))
    host.client.create(thing("Thing"))
    host.run_until_idle()
    assert host.client.get(f"{GROUP}/v1", "Thing", "a")["status"] == {"phase": "done"}
    uid = host.client.get(f"{GROUP}/v1", "Part", "a")["metadata"]["uid"]
    for kind, former in crds.items():
        replace(host, former, definition(kind, **after if kind == "Thing" or "scope" in {*before, *after} else {}))
    # The host's client knows the former kinds.
    host.client.create(thing("Thing"))

    def done() -> bool:
        return bool((host.client.get(f"{GROUP}/v1", "Thing", "a").get("status") or {}).get("phase"))

    host.wait_for(done)
    assert host.client.get(f"{GROUP}/v1", "Part", "a")["metadata"]["uid"] != uid
    host.run_until_idle()
    assert cached[-1] == ["default/a" if after.get("scope") != "Cluster" else "a"]


@behaviour("findings3/NC10")
def test_writes_of_a_version_that_is_gone_are_errors(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(declared("demo"))
    former = definition("Thing")
    host.client.create(former)
    eventually(lambda: host.client.resource(f"{GROUP}/v1", "Thing"))
    obj = host.client.create(thing("Thing"))
    replace(host, former, definition("Thing", version="v2"))
    at = (f"{GROUP}/v1", "Thing")
    for write in (
        lambda: host.client.create(obj),
        lambda: host.client.find(*at, "a"),
        lambda: host.client.patch(*at, "a", "default", {"status": {}}, subresource="status"),
        lambda: host.client.delete(*at, "a"),
        lambda: ctrlhost.finalizers.remove(
            host.client, obj | {"metadata": obj["metadata"] | {"finalizers": ["a.b/c"]}}, "a.b/c"
        ),
        lambda: list(host.client.list(*at)),
    ):
        with pytest.raises(UnknownKind, match=r"replaced.test/v1 is not served; replaced.test has v2"):
            write()
    assert host.client.find(f"{GROUP}/v2", "Thing", "a") is None


@behaviour("findings3/NC10")
def test_an_async_client_and_pages_follow_a_replaced_crd(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(declared("demo"))
    former = definition("Thing")
    host.client.create(former)
    eventually(lambda: host.client.resource(f"{GROUP}/v1", "Thing"))
    replace(host, former, definition("Thing", plural="thingies", scope="Cluster"))
    at = (f"{GROUP}/v1", "Thing")
    assert list(host.client.list(*at)) == []
    host.client.apply(thing("Thing"))
    replace(host, definition("Thing", plural="thingies"), definition("Thing"))
    assert host.client.find(*at, "a") is None
    host.client.create(thing("Thing", "b"))
    assert [obj["metadata"]["namespace"] for obj in host.client.list(*at)] == ["default"]
    host.client.delete_collection(*at)
    assert list(host.client.list(*at)) == []
