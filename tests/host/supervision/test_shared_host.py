"""What the failures of one plugin mean for informers, for the process, and for a host with many plugins."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ctrlhost
from ctrlhost import ConfigError, For, PluginNotFound, ServerError
from ctrlhost.config.types import RawValue
from tests.support.misbehaviour import Good, Hang, reason_of, state_of
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
MAPS = For("v1", "ConfigMap")


def requests_of(host: Any, kind: str) -> Counter[str]:
    """Count the host's requests for a kind by verb from now on."""
    seen: Counter[str] = Counter()
    take = host.faults.take

    def counted(request: Any) -> Any:
        if request.resource == kind:
            seen[request.verb] += 1
        return take(request)

    host.faults.take = counted
    return seen


@behaviour("supervision/LC5")
def test_a_restart_lists_nothing_that_others_use(start, good: Good, sandbox) -> None:
    synced: list[int] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.state = plugin.informer("v1", "ConfigMap"), plugin.informer("v1", "Secret")
        plugin.add_controller("all", lambda ctx, request: None, MAPS)

    def note(plugin: ctrlhost.PluginContext) -> None:
        synced.append(len(plugin.state[0].lister.list()))

    client = ctrlhost.Client.load(sandbox.kubeconfig)
    for number in range(200):
        client.create(config_map(f"map-{number}"))
    client.close()
    host = start(
        plugin_of(setup, "bad", synced=note),
        begin=False,
        sandbox=sandbox,
        supervision={"restart_delay": 0.02, "restart_limit": 5},
    )
    seen = requests_of(host, "configmaps")
    host.start()
    (bad, _) = host.host.plugins
    for count in range(1, 7):
        eventually(lambda count=count: len(synced) == count and state_of(host, "bad") == "running")
        bad.entries.fail("on purpose")
    eventually(lambda: state_of(host, "bad") == "failed")
    assert min(synced) >= 200
    # The watch begins with the list.
    assert seen == {"watch": 1}
    factory = host.host.factory
    eventually(lambda: [informer.kind for informer in factory.informers()] == ["ConfigMap"])
    good.goes_on(host)


@behaviour("supervision/LC9")
def test_the_host_ends_only_when_every_plugin_has_failed(ctrlhost_host) -> None:
    def fail(_plugin: ctrlhost.PluginContext) -> None:
        raise RuntimeError("on purpose")

    host = ctrlhost_host(
        plugin_of(fail, "one"),
        plugin_of(fail, "two"),
        supervision={"one": {"restart_limit": 0}, "two": {"restart_limit": 1, "restart_delay": 0.5}},
    ).host
    # `run` waits for this condition, and returns 1 then.
    eventually(lambda: [plugin.state for plugin in host.plugins] == ["failed", "failing"])
    assert not host._all_failed()
    eventually(lambda: host._all_failed())


@behaviour("supervision/LC12")
def test_mistakes_of_the_operator_are_told_apart(ctrlhost_host, distributions) -> None:
    ran = threading.Event()
    source = """
        import ctrlhost, msgspec

        class Settings(msgspec.Struct):
            size: int = 1

        @ctrlhost.hookimpl
        def ctrlhost_settings():
            return Settings
    """
    distributions.add("sized", source, module="sized_for_a_mistake")
    good = plugin_of(lambda plugin: ran.set(), "good")
    with pytest.raises(PluginNotFound, match="plugin `none-such` is not installed"):
        ctrlhost_host("none-such", good)
    wrong = {"sized": {"size": RawValue("big", "--set x")}}
    with pytest.raises(ConfigError, match=r"plugins\.sized\.size: .*\(in --set x\)"):
        ctrlhost_host("sized", good, settings=wrong)
    assert not ran.is_set()
    twice = plugin_of(lambda plugin: None, "good")
    host = ctrlhost_host(good, twice)
    assert [plugin.state for plugin in host.host.plugins] == ["running", "failed"]
    assert host.host.plugins[1]._restarts.count == 0


@behaviour("supervision/LC17")
def test_many_plugins_that_crash_leave_nothing_behind(ctrlhost_host) -> None:
    good, attempts = Good(), Counter()

    def crash(plugin: ctrlhost.PluginContext) -> None:
        attempts[plugin.name] += 1
        plugin.add_controller("all", lambda ctx, request: None, MAPS)
        plugin.add_task("wait", lambda stop: stop.wait())

    def synced(plugin: ctrlhost.PluginContext) -> None:
        raise RuntimeError("on purpose")

    plugins = [plugin_of(crash, f"bad-{number}", synced=synced) for number in range(19)]
    host = ctrlhost_host(*plugins, good.module, supervision={"restart_delay": 0.01, "restart_limit": 8})

    def used() -> tuple[int, int]:
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    eventually(lambda: min(attempts[f"bad-{number}"] for number in range(19)) >= 4, 60)
    good.goes_on(host)
    most = [sum(column) for column in zip((0, 0), used(), strict=True)]
    eventually(lambda: all(plugin.state == "failed" for plugin in host.host.plugins[:-1]), 120)
    good.goes_on(host)
    threads, files = used()
    assert threads <= most[0] + 2
    assert files <= most[1] + 2


@behaviour("supervision/LC18")
def test_a_late_plugin_reads_more_without_disturbing_others(start, good: Good, hang: Hang, sandbox) -> None:
    events: list[str] = []
    narrow: list[Any] = []

    def look(plugin: ctrlhost.PluginContext) -> None:
        informer = plugin.informer("v1", "ConfigMap", reads="metadata")
        informer.add_handler(on_add=lambda obj, initial: None, on_delete=lambda obj: events.append("deleted"))
        narrow.append(informer)

    wide: list[Any] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        hang()
        wide.append(plugin.informer("v1", "ConfigMap"))

    client = ctrlhost.Client.load(sandbox.kubeconfig)
    client.create(config_map("early", key="value"))
    client.close()
    host = start(plugin_of(setup, "bad"), begin=False, sandbox=sandbox, supervision={"deadlines": {"hook": 60}})
    # Only metadata is read before `bad` comes.
    seen = requests_of(host, "configmaps")
    host.host.plugins.pop()
    host.host._add(plugin_of(look, "other"))
    host.host.start()
    eventually(lambda: state_of(host, "other") == "running")
    count = len(narrow[0].lister.list())
    hang.release()
    eventually(lambda: state_of(host, "bad") == "running")
    assert wide[0].lister.get("early", "default")["data"] == {"key": "value"}
    assert len(narrow[0].lister.list()) == count
    assert events == []
    informers = [informer for informer in host.host.factory.informers() if informer.kind == "ConfigMap"]
    assert len(informers) == 2
    names = [
        check.name
        for check in host.host.inspection.checks("readyz")
        if "ConfigMap" in check.name or "configmaps" in check.name
    ]
    assert len(names) == 2
    assert seen["watch"] == 2


@behaviour("supervision/EN9")
def test_a_hanging_deposed_hook_holds_up_nobody(ctrlhost_host, hang: Hang, manual_clock) -> None:
    calls: list[str] = []
    contexts: list[ctrlhost.PluginContext] = []

    def deposed(plugin: ctrlhost.PluginContext) -> None:
        calls.append(f"{plugin.name} deposed")
        if plugin.name == "bad":
            hang()

    def elected(plugin: ctrlhost.PluginContext) -> None:
        calls.append(f"{plugin.name} elected")

    plugins = [
        plugin_of(contexts.append, name, deposed=lambda plugin: deposed(plugin), elected=lambda plugin: elected(plugin))
        for name in ("bad", "fine")
    ]
    host = ctrlhost_host(
        *plugins, clock=manual_clock, leader_elect=True, supervision={"bad": {"deadlines": {"hook": 0.5}}}
    )
    host.wait_for(lambda: sorted(calls) == ["bad elected", "fine elected"])
    for verb in ("get", "replace"):
        host.faults.next(verb, ServerError("down"), resource="leases", times=1000)
    manual_clock.advance(10)
    host.wait_for(lambda: {"bad deposed", "fine deposed"} <= set(calls))
    host.wait_for(lambda: host.host.plugins[0].overruns["ctrlhost_deposed"] == 1)
    assert state_of(host, "bad") == "running"
    host.faults.clear()

    def led_again() -> bool:
        manual_clock.advance(1)
        return calls.count("fine elected") == 2

    host.wait_for(led_again)
    assert calls.count("bad elected") == 1
    hang.release()
    host.wait_for(lambda: calls.count("bad elected") == 2)
    assert reason_of(host, "bad") == ""
