"""Objects as structs in a controller."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

import ctrlhost
from ctrlhost.testing import ManualClock
from tests.support.plugin_modules import config_map


class Sizes(msgspec.Struct, frozen=True):
    size: Literal["small", "large"] = "small"


@ctrlhost.resource("v1/ConfigMap")
class Sized(msgspec.Struct, frozen=True):
    metadata: ctrlhost.ObjectMeta
    data: Sizes


class PodSpec(msgspec.Struct):
    nodeSelector: dict[str, str] = {}  # noqa: N815 - named as on the wire


@ctrlhost.resource("v1/Pod")
class Pod(msgspec.Struct):
    """Two fields of a pod; not frozen."""

    metadata: ctrlhost.ObjectMeta
    spec: PodSpec


class Phase(msgspec.Struct, frozen=True):
    phase: Literal["Pending", "Running"] = "Pending"


@ctrlhost.resource("v1/Pod")
class Phased(msgspec.Struct, frozen=True):
    metadata: ctrlhost.ObjectMeta
    status: Phase | None = None


@pytest.mark.behaviour("authoring/AU32")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_object_that_does_not_fit_waits_for_its_next_change(ctrlhost_host, asynchronous: bool) -> None:
    plugin, called, clock = ctrlhost.Plugin(), [], ManualClock()

    if asynchronous:

        @plugin.controller(Sized, name="sized")
        async def reconcile_async(ctx: ctrlhost.AsyncContext[Sized, None], obj: Sized) -> None:
            called.append(obj.data.size)
    else:

        @plugin.controller(Sized, name="sized")
        def reconcile(ctx: ctrlhost.Context[Sized, None], obj: Sized) -> None:
            called.append(obj.data.size)

    host = ctrlhost_host(plugin, clock=clock)
    host.client.create(config_map("mine", size="huge"))
    host.run_until_idle()
    (controller,) = host.controllers.values()
    runs = controller.status().runs
    problem = "data.size: invalid enum value 'huge'"
    assert controller.status().last_error.startswith(f"TerminalError: ConfigMap default/mine: {problem}")
    clock.advance(7200)
    host.run_until_idle()
    assert controller.status().runs == runs
    assert called.count("huge") == 0
    (event,) = invalid(host)
    assert (event["type"], event["regarding"]["name"]) == ("Warning", "mine")
    assert event["note"] == "data.size: invalid enum value 'huge'"
    host.client.patch("v1", "ConfigMap", "mine", "default", {"data": {"size": "large"}})
    host.run_until_idle()
    assert called.count("large") == 1


@pytest.mark.behaviour("authoring/AU32")
def test_an_object_whose_status_does_not_fit_is_looked_at_again(ctrlhost_host) -> None:
    plugin, called, clock = ctrlhost.Plugin(), [], ManualClock()

    @plugin.controller(Phased)
    def reconcile(ctx: ctrlhost.Context[Phased, None], obj: Phased) -> None:
        called.append(obj.status and obj.status.phase)

    host = ctrlhost_host(plugin, clock=clock)
    pod = {"containers": [{"name": "c", "image": "c"}]}
    host.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod})
    host.run_until_idle()
    before = list(called)
    host.client.patch("v1", "Pod", "a", "default", {"status": {"phase": "Failed"}}, subresource="status")
    host.client.patch("v1", "Pod", "a", "default", {"metadata": {"labels": {"changed": "1"}}})
    host.settle(allow=("terminal",))
    (controller,) = host.controllers.values()
    assert controller.status().last_error.startswith("InvalidStatus: Pod default/a: status.phase: ")
    host.client.patch("v1", "Pod", "a", "default", {"status": {"phase": "Running"}}, subresource="status")
    host.settle(allow=("terminal",))
    assert called == before
    clock.advance(60)
    host.settle()
    assert called == [*before, "Running"]


@pytest.mark.behaviour("authoring/AU32")
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("read", ["get", "list"])
def test_a_run_that_reads_an_object_that_does_not_fit_is_retried(ctrlhost_host, asynchronous: bool, read: str) -> None:
    plugin, seen, clock = ctrlhost.Plugin(), [], ManualClock()
    arguments = ("other",) if read == "get" else ()

    if asynchronous:

        @plugin.controller("v1/Secret", watches=[Sized])
        async def reconcile_async(ctx: ctrlhost.AsyncContext[ctrlhost.Object, None], obj: ctrlhost.Object) -> None:
            cache = ctx.cache(Sized)
            seen.append(await cache.list() if read == "list" else cache.get(*arguments))
    else:

        @plugin.controller("v1/Secret", watches=[Sized])
        def reconcile(ctx: ctrlhost.Context[ctrlhost.Object, None], obj: ctrlhost.Object) -> None:
            seen.append(getattr(ctx.cache(Sized), read)(*arguments))

    host = ctrlhost_host(plugin, clock=clock)
    host.client.create(config_map("other", size="huge"))
    # Each kind has a watch of its own.
    host.run_until_idle()
    host.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}})
    host.run_until_idle()
    (controller,) = host.controllers.values()
    runs = controller.status().runs
    assert (
        "InvalidObject: ConfigMap default/other: data.size: invalid enum value 'huge'" in controller.status().last_error
    )
    # The event is about the object that is to be corrected.
    (event,) = invalid(host)
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("ConfigMap", "other")
    assert event["note"] == "data.size: invalid enum value 'huge'"
    host.client.patch("v1", "ConfigMap", "other", "default", {"data": {"size": "large"}})
    host.run_until_idle()
    clock.advance(7200)
    host.run_until_idle()
    assert controller.status().runs > runs
    assert len(seen) == 1
    objects = seen[0] if read == "list" else seen
    assert [obj.data.size for obj in objects if obj.metadata.name == "other"] == ["large"]


def invalid(host: Any) -> list[dict[str, Any]]:
    return [event for event in host.events() if event["reason"] == "InvalidObject"]


@pytest.mark.behaviour("authoring/AU33")
def test_a_struct_of_two_fields_is_made_anew_for_each_run(ctrlhost_host) -> None:
    plugin, seen, clock = ctrlhost.Plugin(), [], ManualClock()

    @plugin.controller(Pod)
    def reconcile(ctx: ctrlhost.Context[Pod, None], pod: Pod) -> ctrlhost.Result:
        seen.append((pod.metadata.name, dict(pod.spec.nodeSelector), ctx.object["spec"].get("nodeSelector")))
        (cached,) = ctx.cache(Pod).list()
        pod.spec.nodeSelector["changed"] = cached.spec.nodeSelector["changed"] = "yes"
        pod.spec = PodSpec({"all": "else"})
        return ctrlhost.Result(requeue_after="1h")

    host = ctrlhost_host(plugin, clock=clock)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"nodeSelector": {"disk": "fast"}, "containers": [{"name": "web", "image": "web:1"}]},
    }
    host.client.create(pod)
    host.run_until_idle()
    before = len(seen)
    host.client.patch("v1", "Pod", "web", "default", {"metadata": {"labels": {"a": "b"}}})
    host.run_until_idle()
    assert len(seen) > before
    # The same version again.
    before = len(seen)
    clock.advance(3600)
    host.run_until_idle()
    assert len(seen) > before
    assert all(node == ("web", {"disk": "fast"}, {"disk": "fast"}) for node in seen)
