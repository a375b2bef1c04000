"""The test tools for plugin authors."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import ctrlhost
from ctrlhost import Conflict, For, Request, TooManyRequests, TransportError, Watches
from ctrlhost.testing import ManualClock, NotIdle
from ctrlhost.testing.faults import answer, request_info
from tests.support.plugin_modules import config_map, plugin_of

MINE = For("v1", "ConfigMap", label_selector="mine")


def reconciling(reconcile, *sources, name: str = "demo"):
    return plugin_of(lambda plugin: plugin.add_controller("c", reconcile, *(sources or (MINE,))), name)


@pytest.mark.parametrize(
    ("method", "path", "content_type", "verb", "resource", "name"),
    [
        ("GET", "/api/v1/namespaces/default/pods/web", "", "get", "pods", "web"),
        ("GET", "/api/v1/namespaces/default/pods", "", "list", "pods", ""),
        ("GET", "/api/v1/nodes/one", "", "get", "nodes", "one"),
        ("GET", "/api/v1/namespaces/one", "", "get", "namespaces", "one"),
        ("GET", "/apis/apps/v1/deployments", "", "list", "deployments", ""),
        ("POST", "/apis/apps/v1/namespaces/default/deployments", "application/json", "create", "deployments", ""),
        ("PUT", "/apis/apps/v1/namespaces/default/deployments/d/status", "", "replace", "deployments", "d"),
        ("PATCH", "/api/v1/namespaces/a/pods/b", "application/apply-patch+yaml", "apply", "pods", "b"),
        ("PATCH", "/api/v1/namespaces/a/pods/b", "application/merge-patch+json", "patch", "pods", "b"),
        ("DELETE", "/api/v1/namespaces/a/pods/b", "", "delete", "pods", "b"),
        ("DELETE", "/api/v1/namespaces/a/pods", "", "delete_collection", "pods", ""),
        ("GET", "/apis/apps/v1", "", "list", "", ""),
    ],
)
def test_a_request_is_identified_by_verb_resource_and_name(
    method: str, path: str, content_type: str, verb: str, resource: str, name: str
) -> None:
    about = request_info(method, path, content_type)
    assert (about.verb, about.resource, about.name) == (verb, resource, name)


def test_an_error_is_answered_as_the_server_would() -> None:
    response = answer(TooManyRequests("slow down", retry_after=3))
    assert response.status == 429
    assert response.headers["retry-after"] == "3"
    assert b'"retryAfterSeconds": 3' in response.body


def test_a_fault_hits_as_often_as_configured_and_only_matching_requests(
    ctrlhost_host, manual_clock: ManualClock
) -> None:
    def write(ctx, request) -> None:
        if not request.name.startswith("copy"):
            ctx.client.create(config_map("copy-a"))
            ctx.client.create(config_map("copy-b"))

    host = ctrlhost_host(reconciling(write), clock=manual_clock)
    host.faults.next("create", TransportError("connection reset"), resource="secrets")
    host.faults.next("create", TransportError("connection reset"), resource="configmaps", times=2)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    for failures in (1, 2):
        host.run_until_idle()
        assert host.controllers["demo/c"].status().errors == failures
        manual_clock.advance(0.01)
    host.run_until_idle()
    assert host.client.find("v1", "ConfigMap", "copy-b", "default") is not None
    assert host.faults.left() == 1
    host.faults.clear()
    assert host.faults.left() == 0


def test_a_conflict_is_raised_as_its_own_class(ctrlhost_host, manual_clock: ManualClock) -> None:
    caught: list[type[Exception]] = []

    def write(ctx, request) -> None:
        try:
            ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, {"data": {"a": "1"}})
        except Conflict as error:
            caught.append(type(error))

    host = ctrlhost_host(reconciling(write), clock=manual_clock)
    host.faults.next("patch", Conflict("changed meanwhile"), name="ann")
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert caught == [Conflict]


def test_events_are_hit_only_by_a_fault_that_names_them(ctrlhost_host) -> None:
    host = ctrlhost_host(reconciling(lambda ctx, request: ctx.events.normal(ctx.get(request), "Seen", "once")))
    host.faults.next("create", TransportError("connection reset"))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert [event["reason"] for event in host.events()] == ["Seen"]


def test_a_verb_that_does_not_exist_is_refused(ctrlhost_host) -> None:
    host = ctrlhost_host(reconciling(print))
    with pytest.raises(ValueError, match="unknown verb `update`"):
        host.faults.next("update", Conflict("no"))


def test_a_host_lists_again_after_a_failed_list(ctrlhost_host, sandbox) -> None:
    seen: list[str] = []
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    client.create(config_map("ann", labels={"mine": "1"}))
    host = ctrlhost_host(reconciling(lambda ctx, request: seen.append(request.name)), sandbox=sandbox, start=False)
    host.faults.next("watch", TransportError("connection reset"))
    host.start()
    host.run_until_idle()
    assert seen == ["ann"]
    assert host.faults.left() == 0
    client.close()


def test_a_host_that_does_not_become_idle_reports_what_is_active(ctrlhost_host) -> None:
    def write(ctx, request) -> None:
        ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, {"data": {"n": str(ctx.number)}})

    host = ctrlhost_host(reconciling(write), supervision={"hot_loop": False})
    host.client.create(config_map("ann", labels={"mine": "1"}))
    with pytest.raises(NotIdle, match=r"not idle after 0\.5 s"):
        host.run_until_idle(0.5)


def test_idle_includes_handlers_in_python(ctrlhost_host) -> None:
    release, seen = threading.Event(), []

    def slow(obj) -> list[Request]:
        release.wait(30)
        return [Request(obj.name)]

    source = Watches("v1", "ConfigMap", label_selector="mine", map=slow)
    host = ctrlhost_host(reconciling(lambda ctx, request: seen.append(request.name), source))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    with pytest.raises(NotIdle, match="informer ConfigMap"):
        host.run_until_idle(0.2)
    release.set()
    host.run_until_idle()
    assert seen == ["ann"]


def test_idle_includes_functions_added_as_handlers(ctrlhost_host) -> None:
    seen: list[str] = []
    began, release = threading.Event(), threading.Event()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        informer = plugin.informer("v1", "ConfigMap", label_selector="mine")
        informer.add_handler(on_add=lambda obj, initial: (began.set(), release.wait(30), seen.append(obj.name)))

    host = ctrlhost_host(plugin_of(setup))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    assert began.wait(30)
    with pytest.raises(NotIdle, match="notifications for handlers in Python"):
        host.run_until_idle(0.2)
    release.set()
    host.run_until_idle()
    assert seen == ["ann"]


def test_a_delayed_key_counts_as_idle_until_the_clock_is_stepped(ctrlhost_host, manual_clock: ManualClock) -> None:
    runs: list[float] = []

    def again(ctx, request) -> ctrlhost.Result:
        runs.append(manual_clock.now())
        return ctrlhost.Result(requeue_after=60)

    host = ctrlhost_host(reconciling(again), clock=manual_clock)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    for _ in range(3):
        manual_clock.advance(60)
        host.run_until_idle()
    assert runs == [0, 60, 120, 180]


def test_waiting_for_a_condition_returns_its_value_or_fails(ctrlhost_host) -> None:
    host = ctrlhost_host(reconciling(print))
    assert host.wait_for(lambda: [1]) == [1]
    with pytest.raises(NotIdle):
        host.wait_for(lambda: None, 0.01)


def test_two_hosts_in_one_process_share_nothing(ctrlhost_host) -> None:
    seen: dict[str, list[str]] = {"one": [], "two": []}
    hosts = {
        name: ctrlhost_host(reconciling(lambda ctx, request, name=name: seen[name].append(request.name)))
        for name in seen
    }
    for name, host in hosts.items():
        host.client.create(config_map(f"for-{name}", labels={"mine": "1"}))
        host.run_until_idle()
    assert seen == {"one": ["for-one"], "two": ["for-two"]}


def test_two_hosts_may_share_a_sandbox(ctrlhost_host, sandbox) -> None:
    seen: list[str] = []
    for name in ("one", "two"):
        ctrlhost_host(reconciling(lambda ctx, request, name=name: seen.append(name)), sandbox=sandbox)
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    host = ctrlhost_host(reconciling(lambda ctx, request: None, name="third"), sandbox=sandbox)
    client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    host.wait_for(lambda: sorted(seen) == ["one", "two"])
    client.close()


def test_plugins_and_the_host_receive_their_settings(ctrlhost_host) -> None:
    import msgspec

    class Settings(msgspec.Struct):
        greeting: str = "hello"

    seen: list[str] = []
    plugin = plugin_of(lambda plugin: seen.append(plugin.settings.greeting), settings=lambda: Settings)
    host = ctrlhost_host(plugin, settings={"demo": {"greeting": "good day"}}, namespaces=["default"])
    assert seen == ["good day"]
    assert host.host.settings.namespaces == ("default",)
    assert host.host.address is None


def test_loading_the_pytest_plugin_imports_nothing_heavy() -> None:
    # Every run of pytest loads it if ctrlhost is installed.
    source = (
        "import sys; import ctrlhost.testing.pytest_plugin; "
        "print([name for name in ('kubernetes', 'starlette', 'cryptography', 'ctrlhost.host.host', 'ctrlhost.client') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
