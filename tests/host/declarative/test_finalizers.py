"""Finalizers of a `ctrlhost.Plugin`, on a host that has only the rights that follow from its declaration."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any, Literal

import msgspec
import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import Result, errors, predicates
from ctrlhost.testing import ManualClock, NotSettled
from tests.support.memcached import Cache, Memcached, memcached, new_plugin
from tests.support.plugin_modules import config_map

Context = ctrlhost.Context[Memcached, None]
CLEANUP, SECOND, FOREIGN = "cache.example.com/cleanup", "cache.example.com/second", "example.com/theirs"


class Recorded:
    """A plugin with a controller and finalizers whose functions record their calls, and do what `act` does."""

    def __init__(self, *names: str, when: Any = None, is_async: bool = False) -> None:
        self.calls: list[str] = []
        self.finalizers: list[list[str]] = []
        #: By the name of a function, what it does.
        self.act: dict[str, Any] = {}
        self.plugin = new_plugin("memcached.yaml")
        controller = self.plugin.controller(Memcached)(self._function("reconcile", is_async))
        for name in names:
            self.plugin.finalizer(name, of=controller, when=when)(self._function(name, is_async))

    def _function(self, name: str, is_async: bool) -> Any:
        def call(ctx: Context, mc: Memcached) -> Result | None:
            self.calls.append(name)
            self.finalizers.append(list(mc.metadata.finalizers))
            result = self.act[name](ctx) if name in self.act else None
            assert result is None or isinstance(result, Result)
            return result

        async def call_async(ctx: Any, mc: Memcached) -> Result | None:
            return call(ctx, mc)

        return call_async if is_async else call

    def called(self) -> list[str]:
        """Return the calls since the last question."""
        calls, self.calls[:] = list(self.calls), []
        return calls


def finalizers(cache: Cache) -> list[str]:
    return cache.get()["metadata"].get("finalizers") or []


def fail(ctx: Context) -> None:
    raise ValueError("no daemon")


@pytest.mark.behaviour("authoring/AF1")
@pytest.mark.behaviour("authoring/AF2")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_finalizer_is_added_before_the_first_run_and_removed_after_its_function(
    ctrlhost_host: Any, is_async: bool
) -> None:
    recorded = Recorded(CLEANUP, is_async=is_async)
    cache = Cache(ctrlhost_host(recorded.plugin, least_privilege=True))
    cache.create(finalizers=[FOREIGN])
    (patch,) = cache.patches()
    assert patch["metadata"].pop("resourceVersion").isdigit()
    assert patch == {"metadata": {"finalizers": [FOREIGN, CLEANUP]}}
    assert finalizers(cache) == [FOREIGN, CLEANUP]
    assert recorded.called() == ["reconcile"]
    assert recorded.finalizers == [[FOREIGN, CLEANUP]]
    cache.delete()
    cache.host.run_until_idle()
    assert recorded.called() == [CLEANUP]
    assert finalizers(cache) == [FOREIGN]
    cache.patch({"metadata": {"finalizers": []}})
    cache.host.run_until_idle()
    assert cache.find() is None
    assert recorded.called() == []
    assert cache.codes() == [200, 200]
    assert cache.counts.errors == 0
    assert ("cache.example.com", "memcacheds", "patch") not in cache.host.unused_rights()


@pytest.mark.behaviour("authoring/AF2")
def test_an_object_is_gone_after_its_last_finalizer(ctrlhost_host: Any) -> None:
    recorded = Recorded(CLEANUP)
    cache = Cache(ctrlhost_host(recorded.plugin, least_privilege=True))
    cache.create()
    cache.delete()
    cache.host.run_until_idle()
    assert cache.find() is None
    assert recorded.called() == ["reconcile", CLEANUP]
    cache.create()
    assert finalizers(cache) == [CLEANUP]


@pytest.mark.behaviour("authoring/AF2")
@pytest.mark.parametrize("of_source", [False, True], ids=["of the controller", "of the source"])
@pytest.mark.parametrize("predicate", [predicates.labels_changed, lambda old, new: old is None or new is None])
def test_predicates_of_the_author_do_not_keep_an_object_from_its_finalizer(
    ctrlhost_host: Any, predicate: Any, of_source: bool
) -> None:
    plugin, calls = ctrlhost.Plugin(), []
    source = ctrlhost.For("v1/ConfigMap", label_selector="mine", predicates=[predicate] if of_source else ())

    @plugin.controller(source, predicates=None if of_source else [predicate])
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        calls.append("reconcile")

    plugin.finalizer(CLEANUP, of=reconcile)(lambda ctx, obj: calls.append(CLEANUP))
    host = ctrlhost_host(plugin)
    host.client.create(config_map("a", labels={"mine": "1"}))
    host.run_until_idle()
    host.client.patch("v1", "ConfigMap", "a", "default", {"data": {"changed": "1"}})
    host.run_until_idle()
    host.client.delete("v1", "ConfigMap", "a", "default")
    host.run_until_idle()
    assert calls == ["reconcile", CLEANUP]
    assert host.find("v1/ConfigMap", "a") is None


@pytest.mark.behaviour("authoring/AF3")
def test_a_finalizer_stays_until_its_function_has_ended(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    recorded = Recorded(CLEANUP)
    cache = Cache(ctrlhost_host(recorded.plugin, clock=manual_clock, least_privilege=True))
    cache.create()
    assert recorded.called() == ["reconcile"]
    recorded.act[CLEANUP] = fail
    cache.delete()
    cache.host.run_until_idle()
    manual_clock.advance(0.1)
    cache.host.run_until_idle()
    assert recorded.called() == [CLEANUP, CLEANUP]
    assert cache.counts.errors == 2
    assert finalizers(cache) == [CLEANUP]
    recorded.act[CLEANUP] = lambda ctx: Result(requeue_after=5)
    manual_clock.advance(1)
    cache.host.run_until_idle()
    assert recorded.called() == [CLEANUP]
    assert finalizers(cache) == [CLEANUP]
    manual_clock.advance(4.9)
    cache.host.run_until_idle()
    assert recorded.called() == []
    del recorded.act[CLEANUP]
    manual_clock.advance(0.1)
    cache.host.run_until_idle()
    assert recorded.called() == [CLEANUP]
    assert cache.find() is None


@pytest.mark.behaviour("findings3/NA1")
def test_a_deletion_that_nobody_works_on_is_named(ctrlhost_host: Any) -> None:
    recorded = Recorded(CLEANUP)
    cache = Cache(ctrlhost_host(recorded.plugin))
    cache.create()

    def give_up(_ctx: Context) -> None:
        raise ctrlhost.TerminalError("no such account")

    recorded.act[CLEANUP] = give_up
    cache.delete()
    name = cache.get()["metadata"]["name"]
    held = f"the deletion of Memcached default/{name} waits for {CLEANUP}, which failed for good: "
    with pytest.raises(NotSettled, match=re.escape(held)):
        cache.host.settle()
    cache.host.host._review.check()
    (line,) = [check for check in cache.host.host.inspection.checks("readyz") if check.name.startswith("plugin/")]
    assert line.passed
    assert f"degraded: deletion: {held}TerminalError: no such account" in line.detail
    # A change of the object calls the function again.
    del recorded.act[CLEANUP]
    cache.host.patch(Memcached, name, {"metadata": {"labels": {"again": "1"}}})
    cache.host.settle()
    assert cache.find() is None
    cache.host.host._review.check()
    (line,) = [check for check in cache.host.host.inspection.checks("readyz") if check.name.startswith("plugin/")]
    assert "degraded" not in line.detail


@pytest.mark.behaviour("findings3/NA1")
@pytest.mark.parametrize("own_predicates", [False, True])
def test_a_finalizer_that_somebody_takes_off_makes_the_next_one_due(ctrlhost_host: Any, own_predicates: bool) -> None:
    plugin, calls = ctrlhost.Plugin(), []
    options = {"predicates": [lambda old, new: False]} if own_predicates else {}

    @plugin.controller("v1/ConfigMap", **options)
    def reconcile(ctx: Context, obj: Any) -> None: ...

    @plugin.finalizer("example.com/first", of=reconcile)
    def give_up(ctx: Context, obj: Any) -> None:
        raise ctrlhost.TerminalError("no such account")

    @plugin.finalizer("example.com/second", of=reconcile)
    def clean_up(ctx: Context, obj: Any) -> None:
        calls.append(obj.name)

    host = ctrlhost_host(plugin)
    both = ["example.com/first", "example.com/second"]
    obj = config_map("a")
    obj["metadata"]["finalizers"] = both
    host.client.create(obj)
    host.client.delete("v1", "ConfigMap", "a", "default")
    host.run_until_idle()
    assert calls == []
    host.client.patch("v1", "ConfigMap", "a", "default", {"metadata": {"finalizers": both[1:]}})
    host.settle()
    assert calls == ["a"]
    assert host.find("v1/ConfigMap", "a") is None


@pytest.mark.behaviour("authoring/AF3")
def test_a_function_that_raises_twice_is_called_three_times(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    recorded = Recorded(CLEANUP)
    cache = Cache(ctrlhost_host(recorded.plugin, clock=manual_clock, least_privilege=True))
    cache.create()
    recorded.act[CLEANUP] = lambda ctx: fail(ctx) if ctx.attempt < 3 else None
    cache.delete()
    for left in (True, True, False):
        cache.host.run_until_idle()
        assert (cache.find() is not None) is left
        manual_clock.advance(1)
    assert recorded.called() == ["reconcile", CLEANUP, CLEANUP, CLEANUP]


@pytest.mark.behaviour("authoring/AF4")
def test_a_function_is_called_again_if_the_host_ends_before_the_removal(
    ctrlhost_host: Any, sandbox: Sandbox, manual_clock: ManualClock
) -> None:
    first, second = Recorded(CLEANUP), Recorded(CLEANUP)
    cache = Cache(ctrlhost_host(first.plugin, sandbox=sandbox, clock=manual_clock))
    cache.create()
    cache.host.faults.next("patch", errors.ServerError("the host is gone"), resource="memcacheds", times=1)
    cache.delete()
    cache.host.run_until_idle()
    assert first.called() == ["reconcile", CLEANUP]
    assert finalizers(cache) == [CLEANUP]
    cache.host.stop()
    again = Cache(ctrlhost_host(second.plugin, sandbox=sandbox, clock=manual_clock))
    again.host.run_until_idle()
    assert second.called() == [CLEANUP]
    assert again.find() is None


@pytest.mark.behaviour("authoring/AF4")
def test_a_function_that_has_ended_is_not_called_again_by_the_same_host(
    ctrlhost_host: Any, manual_clock: ManualClock
) -> None:
    recorded = Recorded(CLEANUP)
    cache = Cache(ctrlhost_host(recorded.plugin, clock=manual_clock, least_privilege=True))
    cache.create()
    cache.host.faults.next("patch", errors.ServerError("etcd is away"), resource="memcacheds")
    cache.delete()
    cache.host.run_until_idle()
    assert cache.counts.errors == 1
    manual_clock.advance(1)
    cache.host.run_until_idle()
    assert recorded.called() == ["reconcile", CLEANUP]
    assert cache.find() is None


@pytest.mark.behaviour("authoring/AF5")
def test_each_finalizer_is_removed_by_its_own_success(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    recorded = Recorded(CLEANUP, SECOND)
    cache = Cache(ctrlhost_host(recorded.plugin, clock=manual_clock, least_privilege=True))
    cache.create()
    assert finalizers(cache) == [CLEANUP, SECOND]
    recorded.act[SECOND] = fail
    cache.delete()
    cache.host.run_until_idle()
    assert recorded.called() == ["reconcile", CLEANUP, SECOND]
    assert finalizers(cache) == [SECOND]
    manual_clock.advance(1)
    cache.host.run_until_idle()
    assert recorded.called() == [SECOND]
    assert finalizers(cache) == [SECOND]
    del recorded.act[SECOND]
    manual_clock.advance(1)
    cache.host.run_until_idle()
    assert recorded.called() == [SECOND]
    assert cache.find() is None


@pytest.mark.behaviour("authoring/AF6")
def test_a_finalizer_follows_when(ctrlhost_host: Any) -> None:
    recorded = Recorded(CLEANUP, when=lambda mc: mc.spec.size > 1)
    cache = Cache(ctrlhost_host(recorded.plugin, least_privilege=True))
    cache.create(size=1, finalizers=[FOREIGN])
    assert finalizers(cache) == [FOREIGN]
    assert cache.patches() == []
    cache.resize(2)
    assert finalizers(cache) == [FOREIGN, CLEANUP]
    cache.resize(1)
    assert finalizers(cache) == [FOREIGN]
    cache.resize(2)
    assert finalizers(cache) == [FOREIGN, CLEANUP]
    assert set(recorded.called()) == {"reconcile"}
    # In one change, so that only a deleted object needs it no more.
    recorded.act["reconcile"] = fail
    cache.host.controllers["demo/memcached"].pause()
    cache.patch({"spec": {"size": 1}})
    cache.delete()
    cache.host.controllers["demo/memcached"].resume()
    cache.host.run_until_idle()
    assert finalizers(cache) == [FOREIGN]
    assert recorded.called() == []
    assert cache.counts.errors == 0


def test_a_name_of_an_older_release_is_taken_off_without_a_call(ctrlhost_host: Any) -> None:
    recorded = Recorded(CLEANUP, when=lambda mc: False)
    cache = Cache(ctrlhost_host(recorded.plugin, least_privilege=True))
    cache.create(finalizers=[CLEANUP, FOREIGN])
    assert finalizers(cache) == [FOREIGN]
    assert set(recorded.called()) == {"reconcile"}


class ConfigData(msgspec.Struct):
    size: Literal["small"] = "small"


@ctrlhost.resource("v1/ConfigMap")
class Small(msgspec.Struct):
    metadata: ctrlhost.ObjectMeta
    data: ConfigData


@pytest.mark.parametrize(
    ("when", "stays"), [(lambda obj: False, False), (lambda obj: obj.data.size == "small", True), (None, True)]
)
def test_a_name_of_an_older_release_goes_from_an_object_that_does_not_fit(
    ctrlhost_host: Any, when: Any, stays: bool
) -> None:
    plugin, called = ctrlhost.Plugin(), []

    @plugin.controller(Small)
    def reconcile(ctx: Any, obj: Small) -> None:
        called.append(obj)

    plugin.finalizer(CLEANUP, of=reconcile, when=when)(lambda ctx, obj: called.append(obj))
    host = ctrlhost_host(plugin, start=False)
    own = {"name": "mine", "namespace": "default", "finalizers": [CLEANUP]}
    host.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": own, "data": {"size": "huge"}})
    # The function of a finalizer could not be called for it, so that it does not get any.
    host.client.create(config_map("other", size="huge"))
    host.client.delete("v1", "ConfigMap", "mine", "default")
    host.start()
    host.run_until_idle()
    obj = host.find("v1/ConfigMap", "mine")
    assert (list(obj.finalizers) if obj is not None else []) == ([CLEANUP] if stays else [])
    assert not host.get("v1/ConfigMap", "other").finalizers
    assert all(obj.metadata.name == "kube-root-ca.crt" for obj in called)
    events = [event["regarding"]["name"] for event in host.events() if event["reason"] == "InvalidObject"]
    assert set(events) - {"kube-root-ca.crt"} == ({"mine", "other"} if stays else {"other"})


def test_a_finalizer_that_somebody_removes_is_added_again(ctrlhost_host: Any) -> None:
    recorded = Recorded(CLEANUP)
    cache = Cache(ctrlhost_host(recorded.plugin, least_privilege=True))
    cache.create()
    cache.patch({"metadata": {"finalizers": None}})
    cache.host.run_until_idle()
    assert finalizers(cache) == [CLEANUP]


@pytest.mark.behaviour("authoring/AF9")
@pytest.mark.parametrize("conflicting", ["the finalizer", "the status"])
def test_a_conflict_of_the_removal_does_not_call_the_function_again(ctrlhost_host: Any, conflicting: str) -> None:
    def change(ctx: Context) -> None:
        if conflicting == "the status":
            ctx.status.condition("Ready", False, "Ends")
        held.enter_context(cache.host.faults.hold_watches())
        cache.patch({"metadata": {"labels": {"changed": "yes"}}})

    # The cache does not show the change before the conflict.
    held = ExitStack()
    subresource = "status" if conflicting == "the status" else ""
    recorded = Recorded(CLEANUP)
    recorded.act[CLEANUP] = change
    cache = Cache(ctrlhost_host(recorded.plugin, least_privilege=True))
    cache.create()
    with held:
        cache.delete()
        cache.host.wait_for(lambda: 409 in cache.codes(subresource))
    cache.host.run_until_idle()
    assert cache.find() is None
    assert recorded.called() == ["reconcile", CLEANUP]
    assert cache.codes() == ([200, 409, 200] if conflicting == "the finalizer" else [200, 200])
    assert (cache.counts.errors, cache.counts.requeue) == (0, 1)


def test_the_status_that_a_finalizer_sets_is_written_before_the_removal(ctrlhost_host: Any) -> None:
    recorded = Recorded(CLEANUP)
    recorded.act[CLEANUP] = lambda ctx: ctx.status.condition("Ready", False, "Ends")
    cache = Cache(ctrlhost_host(recorded.plugin, least_privilege=True))
    cache.create(finalizers=[FOREIGN])
    cache.delete()
    cache.host.run_until_idle()
    assert cache.status["conditions"][0]["reason"] == "Ends"
    assert finalizers(cache) == [FOREIGN]


def test_an_object_that_is_gone_before_its_finalizer_is_added_is_no_error(ctrlhost_host: Any) -> None:
    recorded = Recorded(CLEANUP)
    cache = Cache(ctrlhost_host(recorded.plugin, least_privilege=True))
    controller = cache.host.controllers["demo/memcached"]
    controller.pause()
    cache.client.create(memcached())
    cache.host.wait_for(lambda: len(controller.queue))
    with cache.host.faults.hold_watches():
        cache.delete()
        controller.resume()
        cache.host.wait_for(lambda: cache.codes())
    cache.host.run_until_idle()
    assert cache.codes() == [404]
    assert recorded.called() == []
    assert cache.counts.errors == 0
