"""The hook that tells a plugin which keys are its own now, on one replica."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Request
from ctrlhost.coordination.ownership import Phase
from tests.support.objects import config_map
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

LABELS = {"changed": "yes"}
KEY = Request("object", "default")
SHORT = {"deadlines": {"hook": 0.5}, "restart_delay": 3600.0}


class Watcher:
    """A plugin with a sharded controller, and what happens to it."""

    def __init__(self, name: str, changed: Callable[[int], None] = lambda _: None) -> None:
        """Call `changed` with the number of the call in the hook."""
        self.name, self._changed = name, changed
        #: `("hook", whether the key is its own)` and `("run", key)`.
        self.events: list[tuple[str, Any]] = []
        self.context: Any = None

    @property
    def steps(self) -> list[tuple[str, Any]]:
        """The events, of equal ones that follow each other the first: ranges may open in several steps."""
        return [event for event, _ in itertools.groupby(self.events)]

    @property
    def calls(self) -> list[bool]:
        return [owned for what, owned in self.events if what == "hook"]

    def plugin(self) -> Any:
        def shards_changed(plugin: ctrlhost.PluginContext) -> None:
            self.events.append(("hook", plugin.owns(KEY)))
            self._changed(len(self.calls))

        return plugin_of(self._setup, self.name, shards_changed=shards_changed)

    def _setup(self, plugin: ctrlhost.PluginContext) -> None:
        self.context = plugin
        source = ctrlhost.For("v1", "ConfigMap", label_selector="changed=yes")
        plugin.add_controller("runs", self._reconcile, source, shard_by="namespace")

    def _reconcile(self, _ctx: Any, request: Request) -> None:
        self.events.append(("run", request))


def move(host: Any, *, away: bool) -> None:
    """Give all ranges of the replica to another one, or open them again."""
    shards = host.host.state.shards
    if away:
        shards._end_thread()
        shards.ownership.close()
        for span in shards.ownership.phases():
            assert shards.ownership.surrender(span)
            shards._lost.append(span)
    else:
        for part in shards.ownership._ranges.values():
            part.phase = Phase.WARMING
        shards.ownership.warmed()
    opened, lost = list(shards._opened), list(shards._lost)
    shards._opened.clear()
    shards._lost.clear()
    for plugin in host.host.plugins:
        plugin.moved(opened, lost)


@pytest.fixture
def start(ctrlhost_host: Any) -> Callable[..., Any]:
    def start(*watchers: Watcher, **options: Any) -> Any:
        plugins = [watcher.plugin() for watcher in watchers]
        host = ctrlhost_host(*plugins, shards={"enabled": True}, start=False, **options)
        host.client.create(config_map(KEY.name, namespace="default", labels=LABELS))
        host.start()
        return host

    return start


def state_of(host: Any, name: str) -> tuple[str, str]:
    (plugin,) = [plugin for plugin in host.host.plugins if plugin.name == name]
    return plugin.state, plugin.reason


@pytest.mark.behaviour("shards/SH50")
def test_a_plugin_hears_of_open_ranges_before_their_first_run_and_of_lost_ones(start: Any) -> None:
    watcher = Watcher("watcher")
    host = start(watcher)
    host.settle("60s")
    opened = [("hook", True), ("run", KEY)]
    # It is told again when further ranges open.
    assert watcher.steps[:2] == opened
    move(host, away=True)
    eventually(lambda: not watcher.calls[-1])
    before = len(watcher.events)
    move(host, away=False)
    eventually(lambda: watcher.events[before:] == opened)


@pytest.mark.behaviour("shards/SH50")
@pytest.mark.parametrize("away", [False, True])
def test_a_hook_that_raises_is_the_fault_of_its_plugin(start: Any, away: bool) -> None:
    def changed(_call: int) -> None:
        if not away or bad.calls[-1] is False:
            raise ValueError("on purpose")

    bad, good = Watcher("bad", changed), Watcher("good")
    host = start(bad, good, supervision={"bad": SHORT})
    if away:
        host.settle("60s")
        move(host, away=True)
    eventually(lambda: state_of(host, "bad")[0] == "failing")
    assert "ctrlhost_shards_changed: ValueError: on purpose" in state_of(host, "bad")[1]
    eventually(lambda: ("run", KEY) in good.events)
    eventually(lambda: good.calls[-1] is not away)
    assert state_of(host, "good")[0] == "running"
    assert (("run", KEY) in bad.events) is away


@pytest.mark.behaviour("shards/SH50")
def test_a_hook_that_hangs_holds_the_open_range_for_nobody_else(start: Any) -> None:
    released = threading.Event()
    bad, good = Watcher("bad", lambda _: released.wait()), Watcher("good")
    try:
        host = start(bad, good, supervision={"bad": SHORT})
        eventually(lambda: ("run", KEY) in good.events)
        eventually(lambda: state_of(host, "bad")[0] == "failing")
        assert "ctrlhost_shards_changed did not return within 0.5 s" in state_of(host, "bad")[1]
        assert set(host.host.state.shards.ownership.phases().values()) == {Phase.OPEN}
        assert bad.steps == [("hook", True)]
    finally:
        released.set()


@pytest.mark.behaviour("shards/SH50")
def test_a_range_is_given_away_while_the_hook_hangs(start: Any) -> None:
    released = threading.Event()
    hangs = threading.Event()
    watcher = Watcher("watcher", lambda _: hangs.is_set() and released.wait())
    try:
        host = start(watcher, supervision={"watcher": {"deadlines": {"hook": 3600}}})
        host.settle("60s")
        hangs.set()
        count = len(watcher.calls)
        host.host.plugins[0].moved((), ())
        eventually(lambda: len(watcher.calls) == count + 1)
        # It hangs while all ranges go.
        move(host, away=True)
        assert not watcher.context.owns(KEY)
        assert len(watcher.calls) == count + 1
        released.set()
        eventually(lambda: watcher.calls[count:] == [True, False])
    finally:
        released.set()


@pytest.mark.behaviour("shards/SH50")
def test_an_attempt_after_a_restart_is_told_before_its_first_run(start: Any) -> None:
    def changed(call: int) -> None:
        if call == 1:
            raise ValueError("once")

    watcher = Watcher("watcher", changed)
    host = start(watcher, supervision={"watcher": {"restart_delay": 0.01}})
    host.wait_for(lambda: ("run", KEY) in watcher.events)
    assert watcher.calls[0]
    assert watcher.events.index(("run", KEY)) >= 2, "each attempt is told"
