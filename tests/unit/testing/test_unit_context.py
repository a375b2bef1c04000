"""Contexts without host and API server."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost import AlreadyExists, Conflict, NotFound, NotOwned, PluginError, TerminalError, UndeclaredRead
from ctrlhost.testing import ManualClock, RecordedEvent, UnitContext, context
from tests.support.objects import crd
from tests.support.plugin_modules import config_map

pytestmark = pytest.mark.behaviour("findings3/NA21")

plugin = ctrlhost.Plugin[None, str]()


class Spec(msgspec.Struct):
    size: int = 1
    text: str = ""


class Status(msgspec.Struct):
    ready: int = 0
    conditions: list[ctrlhost.Condition] = []


@ctrlhost.resource("unit.test/v1")
class Shop(ctrlhost.Model[Spec, Status]):
    """A shop."""


@plugin.index("v1/Secret")
def by_shop(secret: ctrlhost.Object) -> list[str]:
    return [secret.labels["shop"]] if "shop" in secret.labels else []


def page(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@plugin.controller(Shop, owns=[ctrlhost.Owns("v1/ConfigMap", prune=True), "other.test/v1/Route"], watches=["v1/Secret"])
def reconcile(ctx: ctrlhost.Context[Shop, None, str], shop: Shop) -> None:
    if shop.spec.text == "fail":
        raise TerminalError("no such text")
    pages = [page(f"{shop.metadata.name}-{number}", text=shop.spec.text) for number in range(shop.spec.size)]
    for obj in pages:
        ctx.ensure(obj)
    ctx.prune("v1/ConfigMap", keep=pages)
    secrets = ctx.cache("v1/Secret").by_index(by_shop, shop.metadata.name)
    if not secrets:
        ctx.event("NoSecret", "the shop has no secret", warning=True)
    ctx.status.set(ready=len(secrets))
    ctx.status.condition("Ready", bool(secrets), "Checked", f"for {ctx.state}")


@plugin.finalizer("unit.test/shop", of=reconcile)
def close(ctx: ctrlhost.Context[Shop, None, str], shop: Shop) -> None:
    ctx.event("Closed", "the shop is closed")


def shop(**spec: Any) -> Shop:
    return Shop(metadata=ctrlhost.ObjectMeta(name="one"), spec=Spec(**spec))


def secret(name: str = "key", **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}}


def data(ctx: UnitContext) -> dict[str, str]:
    return {obj["metadata"]["name"]: obj["data"]["text"] for obj in ctx.client.list("v1", "ConfigMap")}


def test_a_function_is_called_with_it() -> None:
    threads = set(threading.enumerate())
    obj = shop(size=2, text="a")
    ctx = context(plugin, obj, objects=[secret(shop="one"), secret("other")], state="me")
    reconcile(ctx, obj)
    assert data(ctx) == {"one-0": "a", "one-1": "a"}
    owner = ctx.client.get("v1", "ConfigMap", "one-0")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Shop", "one", ctx.object.uid)
    assert [event[:2] for event in ctx.recorded] == [("Normal", "Created")] * 2
    ctx.write_status()
    status = ctx.client.get("unit.test/v1", "Shop", "one")["status"]
    (condition,) = status["conditions"]
    assert (status["ready"], condition["status"], condition["message"]) == (1, "True", "for me")
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    # No server and no thread.
    assert set(threading.enumerate()) == threads


def test_a_run_writes_what_the_host_writes() -> None:
    ctx = context(plugin, shop(size=2))
    assert ctx.run() is None
    stored = ctx.client.get("unit.test/v1", "Shop", "one")
    assert stored["metadata"]["finalizers"] == ["unit.test/shop"]
    assert stored["status"]["ready"] == 0
    assert RecordedEvent("Warning", "NoSecret", "the shop has no secret", ("Shop", "one")) in ctx.recorded
    # A second run has nothing to write, a change of the object has.
    versions = {name: ctx.client.get("v1", "ConfigMap", name)["metadata"]["resourceVersion"] for name in data(ctx)}
    ctx.recorded.clear()
    ctx.run()
    assert [event.reason for event in ctx.recorded] == ["NoSecret"]
    assert versions == {
        name: ctx.client.get("v1", "ConfigMap", name)["metadata"]["resourceVersion"] for name in data(ctx)
    }
    ctx.client.patch("unit.test/v1", "Shop", "one", None, {"spec": {"size": 1, "text": "b"}})
    ctx.run()
    assert data(ctx) == {"one-0": "b"}
    assert [event.reason for event in ctx.recorded][-3:] == ["Updated", "Pruned", "NoSecret"]


def test_an_object_that_is_being_deleted_is_finalized() -> None:
    ctx = context(plugin, shop())
    ctx.client.delete("unit.test/v1", "Shop", "one")
    ctx.run()
    assert ctx.recorded[-1][:3] == ("Normal", "Closed", "the shop is closed")
    with pytest.raises(NotFound):
        ctx.client.get("unit.test/v1", "Shop", "one")


def test_errors_are_those_of_a_host() -> None:
    with pytest.raises(TerminalError, match="no such text"):
        context(plugin, shop(text="fail")).run()
    ctx = context(plugin, shop(), objects=[config_map("one-0")])
    with pytest.raises(NotOwned, match="one-0 exists and has no controller"):
        ctx.run()
    with pytest.raises(UndeclaredRead, match="without declaring it"):
        ctx.cache("v1/Pod")
    with pytest.raises(PluginError):
        ctx.prune("other.test/v1/Route")
    with pytest.raises(AlreadyExists):
        ctx.client.create(page("one-0"))
    with pytest.raises(Conflict):
        ctx.client.patch("v1", "ConfigMap", "one-0", None, {"metadata": {"resourceVersion": "0"}})


def test_a_custom_kind_of_others_needs_no_crd() -> None:
    ctx = context(plugin, shop())
    route = {"apiVersion": "other.test/v1", "kind": "Route", "metadata": {"name": "r"}, "spec": {"a": 1, "b": 2}}
    ctx.ensure(route)
    # What an apply leaves out goes, what others wrote stays.
    ctx.client.patch("other.test/v1", "Route", "r", None, {"spec": {"c": 3}})
    ctx.ensure({**route, "spec": {"a": 1}})
    assert ctx.client.get("other.test/v1", "Route", "r")["spec"] == {"a": 1, "c": 3}
    assert ctx.cache("other.test/v1/Route").owned()[0].name == "r"


def test_unmanaged_values_and_adoption() -> None:
    ctx = context(plugin, shop(), objects=[config_map("live", data={"old": "1"})])
    ctx.ensure(page("new", text="a", more=ctrlhost.unmanaged("b")))
    ctx.client.patch("v1", "ConfigMap", "new", None, {"data": {"more": "c"}})
    ctx.ensure(page("new", text="d", more=ctrlhost.unmanaged("b")))
    assert ctx.client.get("v1", "ConfigMap", "new")["data"] == {"text": "d", "more": "c"}
    ctx.ensure(page("live", text="e"), adopt=True)
    assert ctx.client.get("v1", "ConfigMap", "live")["data"]["text"] == "e"


def test_async_functions_and_settings() -> None:
    class Settings(msgspec.Struct):
        prefix: str = "p"

    own: ctrlhost.Plugin[Settings, None] = ctrlhost.Plugin(settings=Settings)

    @own.controller("v1/ConfigMap", name="first", owns=["v1/Secret"])
    async def copy(ctx: Any, obj: ctrlhost.Object) -> ctrlhost.Result:
        await ctx.ensure(secret(f"{ctx.settings.prefix}-{obj.name}"))
        return ctrlhost.Result(requeue_after=ctx.clock.now() + 5)

    @own.controller("v1/ConfigMap", name="second")
    def nothing(ctx: Any, obj: ctrlhost.Object) -> None:
        raise AssertionError

    clock = ManualClock()
    for settings, name in ((None, "p-a"), (Settings("q"), "q-a")):
        ctx = context(own, config_map("a"), settings=settings, controller="first", clock=clock)
        result = ctx.run()
        assert result is not None
        assert result.requeue_after == clock.now() + 5
        assert [obj["metadata"]["name"] for obj in ctx.client.list("v1", "Secret")] == [name]
    with pytest.raises(ValueError, match=r"choose with `controller=` from first, second"):
        context(own, config_map("a"))
    with pytest.raises(ValueError, match=r"no controller reconciles Secret \(v1\); there are first, second"):
        context(own, secret())


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"kind": "Shop", "spec": {}}, r"needs apiVersion, kind and metadata.name; one has kind, spec"),
        ("---\n---\n", r"a run is of one object, not of 0"),
    ],
)
def test_what_is_no_object_is_refused(obj: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        context(plugin, obj)


def test_several_tests_may_use_a_plugin_that_a_host_loads_later(ctrlhost_host: Any) -> None:
    texts = "apiVersion: unit.test/v1\nkind: Shop\nmetadata: {name: yaml}\nspec: {size: 3}\n"
    ctx = context(plugin, texts)
    ctx.run()
    assert len(data(ctx)) == 3
    host = ctrlhost_host(plugin)
    host.apply(crd("other.test", "Route"), texts)
    host.settle()
    objects = {obj.name: obj["data"] for obj in host.list("v1/ConfigMap") if obj.name.startswith("yaml")}
    assert objects == {name: {"text": text} for name, text in data(ctx).items()}
