"""Controllers of plugins on a real API server: their triggers, reads and writes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Every, For, Owns, Request, UndeclaredRead, Watches, predicates
from ctrlhost.controller import ticker
from ctrlhost.testing import ManualClock, NotIdle
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import Seen, controller
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background


# Triggers of a controller.
@pytest.mark.behaviour("workqueue/K52")
@pytest.mark.behaviour("workqueue/K27")
def test_changes_of_an_object_and_its_children_are_reconciled(ctrlhost_host) -> None:
    seen = Seen()
    host = ctrlhost_host(controller(seen, For("v1", "ConfigMap", label_selector="own=er"), Owns("v1", "Secret")))
    # Sources cannot be added at run time: K37 does not apply.
    host.client.create(config_map("ann", labels={"own": "er"}))
    host.run_until_idle()
    assert seen.requests == [Request("ann", "default")]
    seen.forget()
    ann = host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"a": "1"}})
    host.run_until_idle()
    assert seen.names() == ["ann"]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "default"}}
    for change in (
        lambda: host.client.create(secret, owner=ann),
        lambda: host.client.patch("v1", "Secret", "key", "default", {"stringData": {"a": "1"}}),
        lambda: host.client.delete("v1", "Secret", "key", "default"),
        lambda: host.client.delete("v1", "ConfigMap", "ann", "default"),
    ):
        seen.forget()
        change()
        host.run_until_idle()
        assert seen.requests == [Request("ann", "default")]


@pytest.mark.behaviour("workqueue/K25")
def test_no_worker_runs_before_the_first_list_is_delivered(ctrlhost_host, sandbox) -> None:
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    for number in range(20):
        client.create(config_map(f"cm-{number}", labels={"mine": "yes"}))
    counts: list[int] = []

    def count(ctx: ctrlhost.Context, request: Request) -> None:
        counts.append(len(ctx.lister("v1", "ConfigMap").list()))

    host = ctrlhost_host(controller(count, For("v1", "ConfigMap", label_selector="mine=yes")), sandbox=sandbox)
    host.run_until_idle()
    assert counts == [20] * 20


@pytest.mark.behaviour("workqueue/K25")
@pytest.mark.behaviour("findings/FT1")
def test_no_reconcile_begins_while_a_slow_handler_has_objects_left(ctrlhost_host, sandbox) -> None:
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    for number in range(20):
        client.create(config_map(f"cm-{number}", labels={"mine": "yes"}))
    handled: list[int] = []
    last, proceed = threading.Event(), threading.Event()

    def slow(obj: ctrlhost.Object) -> list[Request]:
        handled.append(1)
        if len(handled) == 20:
            last.set()
            assert proceed.wait(30)
        return [Request(obj.name, obj.namespace)]

    before: list[int] = []
    host = ctrlhost_host(
        controller(
            lambda ctx, request: before.append(len(handled)),
            Watches("v1", "ConfigMap", label_selector="mine=yes", map=slow),
        ),
        sandbox=sandbox,
        start=False,
    )
    starting = Background(host.start)
    assert last.wait(30)
    assert before == []
    proceed.set()
    starting.result()
    host.run_until_idle()
    assert before == [20] * 20


def test_initial_objects_are_reconciled_after_changes(ctrlhost_host, sandbox) -> None:
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    client.create(config_map("old", labels={"mine": "yes"}))
    seen = Seen()
    host = ctrlhost_host(controller(seen, For("v1", "ConfigMap", label_selector="mine=yes")), sandbox=sandbox)
    host.run_until_idle()
    client.create(config_map("new", labels={"mine": "yes"}))
    host.run_until_idle()
    assert dict(zip(seen.names(), seen.priorities, strict=True)) == {"old": -100, "new": 0}


def test_a_map_function_gets_the_old_and_the_new_object(ctrlhost_host) -> None:
    seen = Seen()

    def by_team(obj: Any) -> list[Request]:
        return [Request(obj.labels["team"])] if "team" in obj.labels else []

    host = ctrlhost_host(controller(seen, Watches("v1", "ConfigMap", map=by_team)))
    host.client.create(config_map("ann", labels={"team": "red"}))
    host.run_until_idle()
    assert seen.requests == [Request("red")]
    seen.forget()
    host.client.patch("v1", "ConfigMap", "ann", "default", {"metadata": {"labels": {"team": "blue"}}})
    host.run_until_idle()
    assert sorted(seen.names()) == ["blue", "red"]


def test_a_filtered_change_is_not_reconciled_but_cached(ctrlhost_host) -> None:
    seen = Seen(lambda ctx, request: labels.append(dict(ctx.get(request).labels)))
    labels: list[dict[str, str]] = []
    source = For("v1", "ConfigMap", label_selector="mine", predicates=[predicates.labels_changed])
    host = ctrlhost_host(controller(seen, source))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"a": "1"}})
    host.run_until_idle()
    assert labels == [{"mine": "1"}]
    host.client.patch("v1", "ConfigMap", "ann", "default", {"metadata": {"labels": {"mine": "2"}}})
    host.run_until_idle()
    assert labels == [{"mine": "1"}, {"mine": "2"}]


def test_a_predicate_may_be_a_function(ctrlhost_host) -> None:
    seen = Seen()
    source = For(
        "v1", "ConfigMap", label_selector="mine", predicates=[lambda old, new: new is not None and "x" in new["data"]]
    )
    host = ctrlhost_host(controller(seen, source))
    host.client.create(config_map("ann", labels={"mine": "1"}, y="1"))
    host.client.create(config_map("bob", labels={"mine": "1"}, x="1"))
    host.run_until_idle()
    assert seen.names() == ["bob"]


def test_a_timer_enqueues_all_objects_at_low_priority(ctrlhost_host, manual_clock: ManualClock) -> None:
    seen = Seen()
    host = ctrlhost_host(controller(seen, For("v1", "ConfigMap", label_selector="mine"), Every(60)), clock=manual_clock)
    for name in ("ann", "bob"):
        host.client.create(config_map(name, labels={"mine": "1"}))
    host.run_until_idle()
    seen.forget()
    manual_clock.advance(59)
    host.run_until_idle()
    assert seen.requests == []
    manual_clock.advance(1)
    host.run_until_idle()
    assert sorted(seen.names()) == ["ann", "bob"]
    assert seen.priorities == [-100, -100]


@pytest.mark.behaviour("authoring/AU19")
def test_a_round_of_a_timer_spreads_its_objects(ctrlhost_host, manual_clock: ManualClock, monkeypatch) -> None:
    ran: list[tuple[str, float]] = []
    jitter = iter([0.0, 1.0, 0.5, *[0.25] * 3])
    monkeypatch.setattr(ticker, "choose_jitter", lambda clock: lambda: next(jitter))

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        ran.append((request.name, ctx.clock.now()))

    host = ctrlhost_host(
        controller(reconcile, For("v1", "ConfigMap", label_selector="mine"), Every("10m")), clock=manual_clock
    )
    for name in ("ann", "bob", "cat"):
        host.client.create(config_map(name, labels={"mine": "1"}))
    host.run_until_idle()
    ran.clear()
    manual_clock.advance("9m")
    host.run_until_idle()
    assert ran == []
    for seconds in (60, 29, 1, 29, 1):
        manual_clock.advance(seconds)
        host.run_until_idle()
    assert {name for name, _ in ran} == {"ann", "bob", "cat"}
    assert [at for _, at in ran] == [600, 630, 660]
    # The next round is one period after the first, not after its last run.
    manual_clock.advance(540)
    host.run_until_idle()
    assert len(ran) == 3
    manual_clock.advance(15)
    host.run_until_idle()
    assert sorted(ran[3:]) == [("ann", 1215), ("bob", 1215), ("cat", 1215)]


@pytest.mark.parametrize("at_start", [False, True])
def test_a_timer_ticks_each_period_and_at_the_start_if_requested(
    ctrlhost_host, manual_clock: ManualClock, at_start: bool
) -> None:
    seen = Seen()
    host = ctrlhost_host(controller(seen, Every(10, lambda: [Request("all")], at_start=at_start)), clock=manual_clock)
    host.run_until_idle()
    assert seen.names() == ["all"] * at_start
    for count in (1, 2):
        manual_clock.advance(10)
        host.run_until_idle()
        assert seen.names() == ["all"] * (count + at_start)


def test_only_the_declared_namespaces_are_watched(ctrlhost_host) -> None:
    seen = Seen()
    host = ctrlhost_host(controller(seen, For("v1", "ConfigMap", namespaces=["one"], label_selector="mine")))
    for namespace in ("one", "two"):
        host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        host.client.create(config_map("ann", namespace, labels={"mine": "1"}))
    host.run_until_idle()
    assert seen.requests == [Request("ann", "one")]


def test_the_operator_can_narrow_the_namespaces(ctrlhost_host) -> None:
    seen = Seen()
    host = ctrlhost_host(
        controller(seen, For("v1", "ConfigMap", label_selector="mine")),
        controllers={"demo/c": {"namespaces": ["two"], "workers": 3}},
    )
    for namespace in ("one", "two"):
        host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        host.client.create(config_map("ann", namespace, labels={"mine": "1"}))
    host.run_until_idle()
    assert seen.requests == [Request("ann", "two")]
    assert host.controllers["demo/c"].status().workers == 3


# Reads of a controller.
def test_an_undeclared_kind_cannot_be_read(ctrlhost_host) -> None:
    errors: list[Exception] = []

    def read(ctx: ctrlhost.Context, request: Request) -> None:
        for attempt in (lambda: ctx.lister("v1", "Secret"), lambda: ctx.get(request)):
            try:
                attempt()
            except UndeclaredRead as error:
                errors.append(error)

    host = ctrlhost_host(controller(read, Watches("v1", "ConfigMap"), Every(60, lambda: [Request("x")], at_start=True)))
    host.run_until_idle()
    assert [type(error) for error in errors] == [UndeclaredRead, UndeclaredRead]
    assert "controller `demo/c` reads Secret (v1) without declaring it" in str(errors[0])
    assert errors[0].hint == 'add `ctrlhost.Watches("v1", "Secret")` to its sources'
    assert "has no `For`" in str(errors[1])


def test_an_index_finds_objects_and_is_private_to_its_plugin(ctrlhost_host) -> None:
    names: dict[str, list[str]] = {}

    def plugin(name: str, key: str) -> Any:
        def look(ctx: ctrlhost.Context, request: Request) -> None:
            names[name] = sorted(obj.name for obj in ctx.lister("v1", "ConfigMap").by_index("who", "ann"))

        source = For("v1", "ConfigMap", label_selector="mine", indexes={"who": f"data.{key}"})
        return plugin_of(lambda plugin: plugin.add_controller("c", look, source), name)

    host = ctrlhost_host(plugin("one", "first"), plugin("two", "last"))
    host.client.create(config_map("a", labels={"mine": "1"}, first="ann", last="bob"))
    host.client.create(config_map("b", labels={"mine": "1"}, first="bob", last="ann"))
    host.client.create(config_map("c", labels={"mine": "1"}, first="ann", last="ann"))
    host.run_until_idle()
    assert names == {"one": ["a", "c"], "two": ["b", "c"]}


def test_a_source_that_reads_metadata_gets_only_metadata(ctrlhost_host) -> None:
    got: list[Any] = []
    source = For("v1", "ConfigMap", label_selector="mine", reads="metadata")
    host = ctrlhost_host(controller(lambda ctx, request: got.append(ctx.get(request)), source))
    host.client.create(config_map("ann", labels={"mine": "1"}, a="1"))
    host.run_until_idle()
    assert got[0].partial
    assert got[0].labels == {"mine": "1"}
    with pytest.raises(ctrlhost.PartialObject):
        got[0].to_dict()


@pytest.mark.behaviour("kopf/KO24")
def test_a_plugin_that_runs_adds_a_controller_and_an_informer(ctrlhost_host) -> None:
    seen, added = Seen(), Seen()
    informers: list[Any] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        def add(ctx: ctrlhost.Context, request: Request) -> None:
            seen(ctx, request)
            if not informers:
                plugin.add_controller("late", added, For("v1", "Secret", label_selector="mine"))
                informers.append(plugin.informer("v1", "ServiceAccount"))

        plugin.add_controller("early", add, For("v1", "ConfigMap", label_selector="mine"))

    host = ctrlhost_host(plugin_of(setup))
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "labels": {"mine": "1"}},
    }
    host.client.create(secret)
    host.client.create(config_map("a", labels={"mine": "1"}))
    eventually(lambda: added.names() == ["s"])
    eventually(lambda: informers[0].has_synced)
    host.client.create(config_map("b", labels={"mine": "1"}))
    host.client.patch("v1", "Secret", "s", "default", {"stringData": {"a": "1"}})
    host.run_until_idle()
    assert seen.names() == ["a", "b"]
    assert added.names() == ["s", "s"]


# Failures are isolated.
def test_a_plugin_that_fails_every_reconcile_does_not_affect_others(ctrlhost_host, manual_clock: ManualClock) -> None:
    seen = Seen()

    def fail(ctx: ctrlhost.Context, request: Request) -> None:
        raise RuntimeError("never")

    source = For("v1", "ConfigMap", label_selector="mine")
    broken = plugin_of(lambda plugin: plugin.add_controller("c", fail, source), "broken")
    host = ctrlhost_host(broken, controller(seen, source), clock=manual_clock)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert seen.names() == ["ann"]
    assert host.controllers["broken/c"].status().last_error == "RuntimeError: never"


def test_a_reconciler_that_blocks_forever_delays_neither_others_nor_shutdown(ctrlhost_host) -> None:
    begun, never, seen = threading.Event(), threading.Event(), Seen()

    def block(ctx: ctrlhost.Context, request: Request) -> None:
        begun.set()
        never.wait(60)

    source = For("v1", "ConfigMap", label_selector="mine")
    stuck = plugin_of(lambda plugin: plugin.add_controller("c", block, source), "stuck")
    host = ctrlhost_host(stuck, controller(seen, source))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    assert begun.wait(10)
    host.wait_for(lambda: seen.names() == ["ann"])
    with pytest.raises(NotIdle, match="controller stuck/c: 0 queued, 1 active"):
        host.run_until_idle(0.1)
    assert not host.stop(0.1)
    never.set()


# Events, async, tasks.
def test_events_of_a_reconcile_are_written_to_the_server(ctrlhost_host) -> None:
    def tell(ctx: ctrlhost.Context, request: Request) -> None:
        obj = ctx.get(request)
        ctx.events.normal(obj, "Seen", "have seen it", action="Look")
        ctx.events.warning(obj, "Odd", "it looks odd")

    host = ctrlhost_host(controller(tell, For("v1", "ConfigMap", label_selector="mine")))
    ann = host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    events = host.events("default")
    assert sorted((event["type"], event["reason"], event["note"]) for event in events) == [
        ("Normal", "Seen", "have seen it"),
        ("Warning", "Odd", "it looks odd"),
    ]
    assert {event["regarding"]["uid"] for event in events} == {ann["metadata"]["uid"]}
    assert {event["reportingController"] for event in events} == {"ctrlhost-demo"}


def test_a_repeated_event_becomes_a_series(ctrlhost_host) -> None:
    def tell(ctx: ctrlhost.Context, request: Request) -> None:
        ctx.events.normal(ctx.get(request), "Seen", "have seen it")

    host = ctrlhost_host(controller(tell, For("v1", "ConfigMap", label_selector="mine")))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"a": "1"}})
    host.run_until_idle()
    (event,) = host.events("default")
    assert event["series"]["count"] == 2


def test_an_async_reconciler_awaits_its_client(ctrlhost_host) -> None:
    async def copy(ctx: ctrlhost.Context, request: Request) -> None:
        if request.name != "ann":
            return
        await asyncio.sleep(0)
        await ctx.async_client.create(config_map("copy", labels={"mine": "1"}))

    host = ctrlhost_host(controller(copy, For("v1", "ConfigMap", label_selector="mine"), workers=4))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert host.client.get("v1", "ConfigMap", "copy", "default")["metadata"]["labels"] == {"mine": "1"}


def test_a_task_runs_at_its_period_and_is_retried_when_it_fails(ctrlhost_host, manual_clock: ManualClock) -> None:
    calls: list[float] = []

    def run(stop: threading.Event) -> None:
        calls.append(manual_clock.now())
        if len(calls) == 2:
            raise RuntimeError("once")

    host = ctrlhost_host(plugin_of(lambda plugin: plugin.add_task("sweep", run, every=60)), clock=manual_clock)
    host.wait_for(lambda: len(calls) == 1 and manual_clock.waiters())
    manual_clock.advance(60)
    host.wait_for(lambda: len(calls) == 2)
    (task,) = host.host.plugins[0].context.tasks
    host.wait_for(lambda: task.error == "RuntimeError: once")

    def third() -> bool:
        manual_clock.advance(0.5)
        return len(calls) == 3

    host.wait_for(third)
    assert calls[2] < 120
    host.wait_for(lambda: task.error is None)


@pytest.mark.behaviour("authoring/AU22")
def test_an_async_task_is_cancelled_when_the_host_stops(ctrlhost_host, caplog) -> None:
    started, ended = threading.Event(), threading.Event()

    async def run(stop: threading.Event) -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    host = ctrlhost_host(plugin_of(lambda plugin: plugin.add_task("wait", run)))
    host.wait_for(started.is_set)
    assert host.stop()
    assert ended.is_set()
    assert [line for line in caplog.messages if "demo/wait" in line] == []


# Finalizers.
def test_a_finalizer_is_added_once_and_removed_before_deletion(ctrlhost_host) -> None:
    name, cleaned = "example.com/demo", []

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        obj = ctx.get(request)
        if obj is None:
            return
        if obj.deletion_timestamp:
            cleaned.append(request.name)
            ctrlhost.finalizers.remove(ctx.client, obj, name)
        else:
            ctrlhost.finalizers.add(ctx.client, obj, name)

    host = ctrlhost_host(controller(reconcile, For("v1", "ConfigMap", label_selector="mine")))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert host.client.get("v1", "ConfigMap", "ann", "default")["metadata"]["finalizers"] == [name]
    host.client.delete("v1", "ConfigMap", "ann", "default")
    host.run_until_idle()
    assert cleaned == ["ann"]
    assert host.client.find("v1", "ConfigMap", "ann", "default") is None
