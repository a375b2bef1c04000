"""`ctx.status` of a `ctrlhost.Plugin`, on a host that has only the rights that follow from its declaration."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import Client, PluginError, errors
from ctrlhost.client.builtin_kinds import BUILTIN_KINDS, has_status
from ctrlhost.declarative import conflicts
from ctrlhost.plugin.crd_files import crds_from
from ctrlhost.testing import ManualClock
from ctrlhost.transport.interface import HttpRequest
from ctrlhost.transport.responses import decode_object
from tests.support.memcached import Cache, Memcached, Status, memcached, new_plugin
from tests.support.plugin_modules import config_map
from tests.support.waiting import create_eventually

Context = ctrlhost.Context[Memcached, None]


def condition(type_: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": "Because", "message": "", "lastTransitionTime": NOW, **more}


NOW = "2026-01-01T00:00:00Z"


def started(ctrlhost_host: Any, reconcile: Any, clock: ManualClock | None = None, **options: Any) -> Cache:
    plugin = new_plugin("memcached.yaml")
    plugin.controller(Memcached, **options)(reconcile)
    return Cache(ctrlhost_host(plugin, clock=clock, least_privilege=True))


@pytest.mark.behaviour("authoring/AS1")
@pytest.mark.behaviour("authoring/AS11")
@pytest.mark.parametrize("predicates", [None, []], ids=["default", "every change"])
def test_what_differs_is_one_patch_and_what_is_equal_none(
    ctrlhost_host: Any, manual_clock: ManualClock, predicates: list[Any] | None
) -> None:
    runs = []

    def reconcile(ctx: Context, mc: Memcached) -> None:
        runs.append(ctx.status.written)
        ctx.status.set(readyReplicas=mc.spec.size, phase="Ready")
        ctx.status.condition("Available", True, "Because")
        ctx.status.condition("Degraded", False, "Because")
        runs.append(ctx.status.written)

    cache = started(ctrlhost_host, reconcile, manual_clock, predicates=predicates)
    cache.create()
    conditions = [condition("Available", observedGeneration=1), condition("Degraded", "False", observedGeneration=1)]
    written = {"readyReplicas": 1, "phase": "Ready", "conditions": conditions, "observedGeneration": 1}
    (patch,) = cache.patches("status")
    assert patch["status"] == written
    assert list(patch["metadata"]) == ["resourceVersion"]
    assert cache.status == written
    assert runs[:2] == [{}, written]
    # The event of the status is a change, but of nothing else.
    assert cache.counts.runs == (1 if predicates is None else 2)
    cache.run()
    assert runs[2:] == [{}, {}] * (1 if predicates is None else 2)
    assert cache.codes("status") == [200]
    assert cache.patches() == []
    assert "memcacheds/status" not in [resource for _, resource, _ in cache.host.unused_rights()]


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
def test_the_status_may_be_written_before_a_long_part_of_the_run(ctrlhost_host: Any, is_async: bool) -> None:
    seen: list[Any] = []

    def begin(ctx: Any, mc: Memcached) -> None:
        seen.append(cache.status.get("phase"))
        ctx.status.set(phase="Working")

    def end(ctx: Any, mc: Memcached) -> None:
        seen.append(cache.status.get("phase"))
        ctx.status.condition("Available", True, "Because")

    def reconcile(ctx: Context, mc: Memcached) -> None:
        begin(ctx, mc)
        ctx.write_status()
        ctx.write_status()
        end(ctx, mc)

    async def reconcile_async(ctx: ctrlhost.AsyncContext[Memcached, None], mc: Memcached) -> None:
        await asyncio.to_thread(begin, ctx, mc)
        await ctx.write_status()
        await asyncio.to_thread(end, ctx, mc)

    cache = started(ctrlhost_host, reconcile_async if is_async else reconcile)
    cache.create()
    assert seen == [None, "Working"]
    assert [sorted(patch["status"]) for patch in cache.patches("status")] == [
        ["observedGeneration", "phase"],
        ["conditions"],
    ]
    assert cache.counts.errors == 0
    cache.run()
    assert cache.codes("status") == [200, 200]


def test_a_conflict_within_the_run_is_left_to_its_end(ctrlhost_host: Any) -> None:
    def reconcile(ctx: Context, mc: Memcached) -> None:
        ctx.status.condition("Available", True, "Because")
        if first.pop("run", None):
            cache.patch({"status": {"phase": "Foreign"}}, subresource="status")
        ctx.write_status()

    first = {"run": True}
    cache = started(ctrlhost_host, reconcile)
    cache.create()
    assert cache.status["phase"] == "Foreign"
    assert [condition["type"] for condition in cache.status["conditions"]] == ["Available"]
    assert cache.counts.errors == 0


@pytest.mark.behaviour("authoring/AS2")
def test_the_transition_time_is_the_clocks_and_changes_with_the_status(
    ctrlhost_host: Any, manual_clock: ManualClock
) -> None:
    wanted: dict[str, Any] = {"status": True, "message": "one"}

    def reconcile(ctx: Context, mc: Memcached) -> None:
        ctx.status.condition("Ready", wanted["status"], "Because", wanted["message"])

    cache = started(ctrlhost_host, reconcile, manual_clock)
    cache.create()
    for status, message, moment in (
        (True, "one", NOW),
        (True, "two", NOW),
        (False, "two", "2026-01-01T00:00:04Z"),
        (True, "two", "2026-01-01T00:00:06Z"),
    ):
        wanted.update(status=status, message=message)
        cache.run()
        (ready,) = cache.status["conditions"]
        assert ready == condition(
            "Ready", str(status), message=message, observedGeneration=1, lastTransitionTime=moment
        )
        manual_clock.advance(2.3)
    assert cache.codes("status") == [200] * 4


@pytest.mark.behaviour("authoring/AS3")
def test_the_observed_generation_is_the_one_that_was_read(ctrlhost_host: Any) -> None:
    reading, written = threading.Event(), threading.Event()

    def reconcile(ctx: Context, mc: Memcached) -> None:
        ctx.status.set(readyReplicas=mc.spec.size)
        if mc.spec.size == 1:
            reading.set()
            assert written.wait(30)

    cache = started(ctrlhost_host, reconcile)
    cache.client.create(memcached())
    assert reading.wait(30)
    cache.patch({"spec": {"size": 2}})
    with cache.host.faults.hold_watches():
        written.set()
        cache.host.wait_for(lambda: cache.status)
    cache.host.run_until_idle()
    assert [patch["status"] for patch in cache.patches("status")] == [
        {"readyReplicas": 1, "observedGeneration": 1},
        {"readyReplicas": 2, "observedGeneration": 2},
    ]


@pytest.mark.behaviour("authoring/AS4")
def test_a_failed_run_writes_its_status(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    def reconcile(ctx: Context, mc: Memcached) -> None:
        ctx.status.condition("Degraded", True, "Because")
        raise ValueError("no daemon")

    cache = started(ctrlhost_host, reconcile, manual_clock)
    cache.create()
    assert cache.status["conditions"] == [condition("Degraded", observedGeneration=1)]
    assert cache.counts.errors == cache.counts.runs == 1
    assert cache.host.controllers["demo/memcached"].status().last_error == "ValueError: no daemon"


@pytest.mark.behaviour("authoring/AS4")
@pytest.mark.parametrize("own", [None, ValueError("no daemon")], ids=["the status alone", "both"])
def test_a_status_that_cannot_be_written_fails_the_run_unless_it_failed_itself(
    ctrlhost_host: Any, manual_clock: ManualClock, own: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    def reconcile(ctx: Context, mc: Memcached) -> None:
        ctx.status.set(readyReplicas=1)
        if own is not None and ctx.attempt == 1:
            raise own

    cache = started(ctrlhost_host, reconcile, manual_clock)
    cache.host.faults.next("patch", errors.ServerError("etcd is away"), resource="memcacheds")
    cache.create()
    assert cache.counts.errors == 1
    error = "ServerError: etcd is away" if own is None else "ValueError: no daemon"
    assert cache.host.controllers["demo/memcached"].status().last_error == error
    logged = "the status of default/cache was not written: etcd is away"
    assert (logged in caplog.messages) is (own is not None)
    manual_clock.advance(1)
    cache.host.run_until_idle()
    assert cache.status["readyReplicas"] == 1
    assert (cache.counts.errors, cache.counts.successes) == (1, 1)


@pytest.mark.behaviour("authoring/AS5")
def test_a_condition_of_another_controller_is_kept_by_a_second_run(ctrlhost_host: Any) -> None:
    runs = []

    def reconcile(ctx: Context, mc: Memcached) -> None:
        runs.append([condition.type for condition in mc.status.conditions] if mc.status else [])
        ctx.status.condition("First", True, "Because")
        ctx.status.condition("Second", True, "Because")
        if len(runs) == 1:
            held.enter_context(cache.host.faults.hold_watches())
            cache.patch({"status": {"conditions": [condition("Theirs")]}}, "status")

    cache = started(ctrlhost_host, reconcile)
    # The cache does not show the change before the conflict.
    with ExitStack() as held:
        cache.client.create(memcached())
        cache.host.wait_for(lambda: cache.codes("status") == [409])
    cache.host.run_until_idle()
    assert cache.codes("status") == [409, 200]
    assert runs == [[], ["Theirs"]]
    types = [(condition["type"], condition.get("observedGeneration")) for condition in cache.status["conditions"]]
    assert types == [("Theirs", None), ("First", 1), ("Second", 1)]
    counts = cache.counts
    assert (counts.errors, counts.requeue, counts.successes) == (0, 1, 1)
    assert [run.result for run in cache.host.controllers["demo/memcached"].history.last_runs()] == [
        "success",
        "requeue",
    ]


@pytest.mark.behaviour("authoring/AS5")
def test_conflicts_count_as_failures_after_five_in_a_row(
    ctrlhost_host: Any, manual_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cache never shows another version here.
    monkeypatch.setattr(conflicts, "WAIT_SECONDS", 0.01)

    def reconcile(ctx: Context, mc: Memcached) -> None:
        ctx.status.condition("Ready", mc.spec.size == 1, "Because")

    cache = started(ctrlhost_host, reconcile, manual_clock)
    cache.create(size=0)
    for size, times, failures in ((1, 5, 0), (2, 6, 1), (1, 5, 0)):
        before = cache.counts
        faster = errors.Conflict("somebody else was faster")
        cache.host.faults.next("patch", faster, resource="memcacheds", times=times)
        cache.resize(size)
        manual_clock.advance(1)
        cache.host.run_until_idle()
        assert cache.host.faults.left() == 0
        assert cache.counts.errors - before.errors == failures
        assert cache.counts.requeue - before.requeue == 5
        assert cache.status["conditions"][0]["status"] == str(size == 1)


@pytest.mark.behaviour("authoring/AS6")
def test_fields_are_removed_kept_and_checked(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    def reconcile(ctx: Context, mc: Memcached) -> None:
        if mc.spec.size == 1:
            ctx.status.set(phase="Ready", readyReplicas=1)
        if mc.spec.size == 2:
            ctx.status.set(phase=None)
        if mc.spec.size == 3:
            ctx.status.set(readyReplica=3)

    cache = started(ctrlhost_host, reconcile, manual_clock)
    cache.create()
    cache.patch({"status": {"theirs": "kept"}}, "status")
    cache.resize(2)
    assert cache.status == {"readyReplicas": 1, "theirs": "kept", "observedGeneration": 2}
    cache.resize(3)
    assert cache.host.controllers["demo/memcached"].status().last_error == (
        "TypeError: the status of Memcached has no field `readyReplica`; did you mean `readyReplicas`?"
    )
    assert cache.status == {"readyReplicas": 1, "theirs": "kept", "observedGeneration": 2}


PLAIN = {"apiVersion": "cache.example.com/v1alpha1", "kind": "Plain", "metadata": {"name": "a", "namespace": "default"}}
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
MISSING = "Plain has no status subresource, which ctx.status writes"


@ctrlhost.resource("cache.example.com/v1alpha1")
class Plain(ctrlhost.Model[dict[str, Any], Status], frozen=True):
    """A kind whose model has a status, but not its CRD."""


@pytest.mark.behaviour("authoring/AS7")
@pytest.mark.behaviour("findings3/NA32")
def test_a_model_with_a_status_without_subresource_in_its_crd_does_not_load(ctrlhost_host: Any) -> None:
    plugin = new_plugin("plain_kind.yaml")

    @plugin.controller(Plain)
    def reconcile(ctx: ctrlhost.Context[Plain, None], plain: Plain) -> None:
        raise AssertionError

    host = ctrlhost_host(plugin, start=False)
    host.host.start()
    (failed,) = host.wait_for(lambda: [entry for entry in host.host.plugins if entry.state == "failed"])
    problem = "Plain (cache.example.com/v1alpha1): its model has a status, but its CRD has no status subresource"
    assert failed.reason == (
        f"{problem} (hint: add `subresources: {{status: {{}}}}` to the version in its CustomResourceDefinition, "
        'or to write it with the object, `status="object"` to the controller)'
    )


@pytest.mark.behaviour("findings3/NA32")
def test_another_place_of_the_status_does_not_load(ctrlhost_host: Any) -> None:
    plugin: Any = new_plugin()
    plugin.controller("v1/ConfigMap", status="root")(lambda _ctx, _obj: None)
    host = ctrlhost_host(plugin, start=False)
    host.host.start()
    (failed,) = host.wait_for(lambda: [entry for entry in host.host.plugins if entry.state == "failed"])
    assert failed.reason == 'controller configmap: status must be "subresource" or "object", got \'root\''


@pytest.mark.behaviour("findings3/NA32")
@pytest.mark.parametrize(
    ("typed", "known"), [(True, True), (False, True), (False, False)], ids=["model", "object", "unknown CRD"]
)
def test_a_status_is_written_with_the_object_where_the_author_says_so(
    ctrlhost_host: Any, manual_clock: ManualClock, typed: bool, known: bool
) -> None:
    with Sandbox(rbac=True) as sandbox:
        crd, *_ = crds_from("tests.support", "plain_kind.yaml")
        client = Client.load(sandbox.kubeconfig)
        client.create(crd)
        plugin = new_plugin("plain_kind.yaml") if known else new_plugin()
        kind: Any = Plain if typed else "cache.example.com/v1alpha1/Plain"

        @plugin.controller(kind, status="object")
        def reconcile(ctx: ctrlhost.Context, obj: Any) -> None:
            ctx.status.set(phase="Ready")
            ctx.status.condition("Ready", True, "Made")

        create_eventually(client, {**PLAIN, "spec": {"x": 0}})
        host = ctrlhost_host(plugin, clock=manual_clock, sandbox=sandbox, least_privilege=True)
        host.run_until_idle()
        status = host.client.get("cache.example.com/v1alpha1", "Plain", "a", "default")["status"]
        assert (status["phase"], [condition["type"] for condition in status["conditions"]]) == ("Ready", ["Ready"])
        host.client.patch("cache.example.com/v1alpha1", "Plain", "a", "default", {"spec": {"x": 1}})
        host.run_until_idle()
        patches = [
            record.subresource for record in sandbox.audit if record.resource == "plains" and record.verb == "patch"
        ]
        assert patches == ["", ""]
        (controller,) = host.controllers.values()
        assert controller.status().errors == 0


@pytest.mark.behaviour("authoring/AS7")
@pytest.mark.parametrize("known", [True, False], ids=["known CRD", "unknown CRD"])
def test_a_kind_without_status_subresource_fails_at_first_use(
    ctrlhost_host: Any, manual_clock: ManualClock, sandbox: Sandbox, known: bool
) -> None:
    crd, *_ = crds_from("tests.support", "plain_kind.yaml")
    client = Client.load(sandbox.kubeconfig)
    client.create(crd)
    plugin = new_plugin("plain_kind.yaml") if known else new_plugin()
    after: list[str] = []

    @plugin.controller("cache.example.com/v1alpha1/Plain", name="memcached")
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ctx.status.set(a=1)
        after.append("set")

    create_eventually(client, PLAIN)
    cache = Cache(ctrlhost_host(plugin, clock=manual_clock, sandbox=sandbox))
    cache.host.run_until_idle()
    manual_clock.advance(1)
    cache.host.run_until_idle()
    (controller,) = cache.host.controllers.values()
    assert str(controller.status().last_error).startswith(f"PluginError: {MISSING} (hint: ")
    assert controller.counts.total().errors == controller.counts.total().runs >= 2
    requests = [
        record.subresource for record in sandbox.audit if record.resource == "plains" and record.verb == "patch"
    ]
    runs = controller.counts.total().runs
    assert (requests, after) == ([], []) if known else (["status"] * runs, ["set"] * runs)
    if not known:
        add = [{"op": "add", "path": "/spec/versions/0/subresources", "value": {"status": {}}}]
        client.patch(*CRD, crd["metadata"]["name"], None, add, type="json")
        manual_clock.advance(2)
        cache.host.run_until_idle()
        assert controller.counts.total().successes == 1


@pytest.mark.behaviour("authoring/AS7")
def test_a_subresource_that_somebody_takes_from_the_crd_is_an_error(
    ctrlhost_host: Any, manual_clock: ManualClock
) -> None:
    def reconcile(ctx: Context, mc: Memcached) -> None:
        ctx.status.set(readyReplicas=mc.spec.size)

    cache = started(ctrlhost_host, reconcile, manual_clock)
    cache.create()
    remove = [{"op": "remove", "path": "/spec/versions/0/subresources"}]
    cache.client.patch(*CRD, "memcacheds.cache.example.com", None, remove, type="json")
    cache.resize(2)
    problem = "PluginError: Memcached has no status subresource, which ctx.status writes"
    assert str(cache.host.controllers["demo/memcached"].status().last_error).startswith(problem)
    assert cache.status["readyReplicas"] == 1


@pytest.mark.behaviour("authoring/AS7")
def test_a_missing_subresource_is_named_before_the_missing_right(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    plugin = new_plugin()

    @plugin.controller("v1/ConfigMap")
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ctx.status.set(a=1)

    host = ctrlhost_host(plugin, clock=manual_clock, least_privilege=True)
    host.client.create(config_map("a"))
    host.run_until_idle()
    problem = "PluginError: ConfigMap has no status subresource, which ctx.status writes"
    assert str(host.controllers["demo/configmap"].status().last_error).startswith(problem)


@pytest.mark.behaviour("findings3/NA18")
def test_a_built_in_kind_without_status_is_an_error_at_the_line(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    plugin = new_plugin()
    raised: list[PluginError] = []

    @plugin.controller("v1/ConfigMap")
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        for use in (lambda: ctx.status.set(a=1), lambda: ctx.status.condition("Ready", True, "Made")):
            with pytest.raises(
                PluginError, match=r"^ConfigMap has no status subresource, which ctx.status writes"
            ) as error:
                use()
            raised.append(error.value)

    host = ctrlhost_host(plugin, clock=manual_clock)
    host.client.create(config_map("a"))
    host.run_until_idle()
    assert raised
    for error in raised:
        assert error.hint == "record it with `ctx.event(…)`, or write the status of a kind of the plugin's own"
    assert [record for record in host.sandbox.audit if record.resource == "configmaps" and record.verb == "patch"] == []


@pytest.mark.behaviour("findings3/NA18")
def test_the_built_in_kinds_with_a_status_are_those_of_the_server(sandbox: Sandbox) -> None:
    client = Client.load(sandbox.kubeconfig)
    for api_version, kinds in BUILTIN_KINDS.items():
        path = f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
        served = decode_object(client.transport.send(HttpRequest("GET", path)), path)["resources"]
        names = {entry["name"] for entry in served}
        for kind, (plural, _) in kinds.items():
            assert has_status(api_version, kind) is (f"{plural}/status" in names), (api_version, kind)
    assert has_status("example.com/v1", "Deployment") is None


@pytest.mark.behaviour("authoring/AS8")
@pytest.mark.parametrize("seen", [True, False], ids=["before the end", "only by the server"])
def test_an_object_that_is_deleted_during_the_run_gets_no_status(ctrlhost_host: Any, seen: bool) -> None:
    def reconcile(ctx: Context, mc: Memcached) -> None:
        ctx.status.set(readyReplicas=1)
        if seen:
            cache.delete()
            cache.host.wait_for(lambda: ctx.get(ctx.request) is None)
        else:
            held.enter_context(cache.host.faults.hold_watches())
            cache.delete()

    cache = started(ctrlhost_host, reconcile)
    with ExitStack() as held:
        cache.client.create(memcached())
        cache.host.wait_for(lambda: cache.counts.successes)
    cache.host.run_until_idle()
    assert cache.find() is None
    assert cache.codes("status") == ([] if seen else [404])
    assert (cache.counts.errors, cache.counts.successes) == (0, cache.counts.runs)


@pytest.mark.behaviour("authoring/AS8")
def test_an_object_that_is_made_again_during_the_run_gets_no_status(ctrlhost_host: Any) -> None:
    def reconcile(ctx: Context, mc: Memcached) -> None:
        if mc.spec.size == 1:
            ctx.status.set(readyReplicas=1)
            cache.delete()
            cache.client.create(memcached(size=2))
            cache.host.wait_for(lambda: (obj := ctx.get(ctx.request)) and obj.uid != mc.metadata.uid)

    cache = started(ctrlhost_host, reconcile)
    cache.create()
    assert cache.patches("status") == []
    assert (cache.counts.errors, cache.get()["spec"]["size"]) == (0, 2)


@pytest.mark.parametrize("in_a_group", [False, True])
@pytest.mark.parametrize(
    "error", [errors.Stale("behind"), errors.NotLeading("deposed"), errors.PluginRestarted("over")]
)
def test_nothing_is_written_after_an_error_that_ends_writing(
    ctrlhost_host: Any, manual_clock: ManualClock, error: Exception, in_a_group: bool
) -> None:
    def reconcile(ctx: Context, mc: Memcached) -> None:
        patches.append(len(cache.patches("status")))
        ctx.status.set(readyReplicas=1)
        if len(patches) == 1:
            if in_a_group:
                raise ExceptionGroup("both", [ValueError("no daemon"), error])
            raise RuntimeError from error

    patches: list[int] = []
    cache = started(ctrlhost_host, reconcile, manual_clock)
    cache.create()
    manual_clock.advance(1)
    cache.host.run_until_idle()
    # The first run has written nothing, the second its status.
    assert patches == [0, 0]
    assert cache.codes("status") == [200]


def test_a_cancelled_run_writes_no_status(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    plugin = new_plugin("memcached.yaml")

    @plugin.controller(Memcached, timeout=5)
    async def reconcile(ctx: ctrlhost.AsyncContext[Memcached, None], mc: Memcached) -> None:
        ctx.status.set(readyReplicas=1)
        if not runs:
            runs.append(ctx.status.written)
            await asyncio.Event().wait()

    runs: list[Any] = []
    cache = Cache(ctrlhost_host(plugin, clock=manual_clock, least_privilege=True))
    cache.client.create(memcached())
    cache.host.wait_for(lambda: runs)
    manual_clock.advance(6)
    cache.host.wait_for(lambda: cache.counts.runs)
    assert cache.patches("status") == []
    manual_clock.advance(1)
    cache.host.run_until_idle()
    assert [patch["status"] for patch in cache.patches("status")] == runs


def test_a_field_that_the_server_drops_is_written_once(ctrlhost_host: Any) -> None:
    plugin = new_plugin("memcached.yaml")

    @plugin.controller("cache.example.com/v1alpha1/Memcached")
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ctx.status.set(unknown=obj["spec"]["size"])

    cache = Cache(ctrlhost_host(plugin, least_privilege=True))
    cache.create()
    for _ in range(3):
        cache.run()
    # The first patch also writes observedGeneration.
    assert [patch["status"] for patch in cache.patches("status")] == [
        {"unknown": 1, "observedGeneration": 1},
        {"unknown": 1},
    ]
    cache.resize(2)
    assert cache.patches("status")[2:] == [{"status": {"unknown": 2, "observedGeneration": 2}}]


@pytest.mark.parametrize("reads", [["spec"], ["status.conditions"], "metadata", ["spec", "status"]])
def test_a_status_that_is_not_cached_is_not_overwritten(
    ctrlhost_host: Any, manual_clock: ManualClock, reads: Any
) -> None:
    plugin = new_plugin("memcached.yaml")

    @plugin.controller(ctrlhost.For("cache.example.com/v1alpha1/Memcached", reads=reads))
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ctx.status.condition("Ready", True, "Because")

    cache = Cache(ctrlhost_host(plugin, clock=manual_clock, least_privilege=True))
    cache.host.controllers["demo/memcached"].pause()
    cache.client.create(memcached())
    cache.patch({"status": {"conditions": [condition("Theirs")]}}, "status")
    cache.host.controllers["demo/memcached"].resume()
    cache.host.run_until_idle()
    error = cache.host.controllers["demo/memcached"].status().last_error
    types = [condition["type"] for condition in cache.status["conditions"]]
    if "status" in reads:
        assert (types, error) == (["Theirs", "Ready"], None)
    else:
        problem = "the cached objects of Memcached have no status, with which ctx.status compares"
        assert types == ["Theirs"]
        assert str(error).startswith(f"PluginError: {problem} (hint: ")
