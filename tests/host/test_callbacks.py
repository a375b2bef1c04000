"""Functions of a plugin that hang or fill their buffer: the host, the probes and the other plugins go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request, Watches
from ctrlhost.informers import caller as callers
from tests.support.plugin_modules import plugin_of
from tests.support.reconcilers import Seen
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
#: Hangs in one of its functions as soon as there is a Secret named `hang`.
BAD = """
    import threading
    import ctrlhost

    def hang(*objects):
        if any(obj is not None and obj.name == "hang" for obj in objects):
            threading.Event().wait()
        return []

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        use = "{use}"
        options = {{
            "map": {{"map": hang}},
            "predicate": {{"map": lambda obj: [], "predicates": [lambda old, new: not hang(old, new)]}},
            "index": {{"indexes": {{"i": hang}}}},
        }}
        secrets = ctrlhost.Watches("v1", "Secret", **options.get(use, {{}}))
        plugin.add_controller("c", lambda ctx, request: None, secrets)
        if use == "handler":
            plugin.informer("v1", "Secret").add_handler(on_add=lambda obj, initial: hang(obj))
"""
GOOD = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        to_itself = lambda obj: [ctrlhost.Request(obj.name, obj.namespace)]
        secrets = ctrlhost.Watches("v1", "Secret", map=to_itself, indexes={"name": lambda obj: [obj.name]})
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap"), secrets)

    def reconcile(ctx, request):
        secrets = ctx.lister("v1", "Secret").by_index("name", request.name)
        ctx.log.info("good saw %s %d", request.name, len(secrets))
"""


def secret(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}}


@behaviour("supervision/IN1")
@pytest.mark.parametrize("use", ["map", "predicate", "handler", "index"])
def test_a_function_that_hangs_delays_neither_other_plugins_nor_probes_nor_the_end(distributions, start_host, use):
    distributions.add("bad", BAD.format(use=use))
    distributions.add("good", GOOD)
    settings = ["--set=supervision.bad.deadlines.callback=500ms", "--set=host.drain_timeout=2s"]
    host = start_host("--sandbox", *settings, plugins="bad,good")
    host.line("plugin good running")
    host.line("plugin bad running")
    client = ctrlhost.Client.load(host.kubeconfig)
    client.create(secret("hang"))
    host.line("good saw hang 1")
    line = host.line(f"plugin bad: {use} of default/hang runs for")
    assert any("hang" in frame for frame in line["stack"])
    client.create(secret("later"))
    host.line("good saw later 1")
    assert host.metric("ctrlhost_entry_overdue", plugin="bad", entry=use) == 1
    assert "good" in host.get("/readyz?verbose")[1]
    assert host.stop() == 0


@pytest.fixture
def proceed() -> Iterator[threading.Event]:
    """Return the event that lets functions return; set at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


@behaviour("supervision/IN9")
def test_a_full_buffer_restarts_its_plugin_which_requests_everything_again(ctrlhost_host, proceed, monkeypatch) -> None:
    hangs, requested, seen = threading.Event(), [], Seen()

    def requests(obj: Any) -> list[Request]:
        requested.append(obj.name)
        if hangs.is_set():
            assert proceed.wait(60)
        return [Request(obj.name, obj.namespace)]

    bad = plugin_of(lambda plugin: plugin.add_controller("c", seen, Watches("v1", "Secret", map=requests)), "bad")
    good = Seen()
    monkeypatch.setattr(callers, "BUFFER_LIMIT", 100)
    monkeypatch.setattr(callers, "BUFFER_PER_OBJECT", 0)
    host = ctrlhost_host(
        bad,
        plugin_of(lambda plugin: plugin.add_controller("c", good, For("v1", "Secret")), "good"),
        supervision={"bad": {"restart_delay": "50ms"}},
    )
    monkeypatch.undo()
    (runtime,) = [plugin for plugin in host.host.plugins if plugin.name == "bad"]
    hangs.set()
    for number in range(300):
        host.client.create(secret(f"s{number}"))
        if runtime.restarted:
            break
    eventually(lambda: runtime.state == "failing" or runtime.restarted)
    assert runtime.restarted or "callback buffer of bad/c for Secret.v1 is full" in runtime.reason
    hangs.clear()
    for number in range(300):
        if host.client.find("v1", "Secret", f"s{number}", "default") is None:
            host.client.create(secret(f"s{number}"))
    wanted = {f"s{number}" for number in range(300)}
    eventually(lambda: wanted <= set(seen.names()), what="each Secret is requested")
    eventually(lambda: wanted <= set(good.names()))
    eventually(lambda: runtime.state == "running")
    assert [plugin.name for plugin in host.host.plugins if plugin.restarted] == ["bad"]


@behaviour("supervision/IN12")
def test_workers_start_after_the_map_was_called_for_the_whole_first_list(ctrlhost_host, sandbox, proceed) -> None:
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    count = 1_000
    for number in range(count):
        client.create(secret(f"s{number}"))
    mapped: list[str] = []

    def requests(obj: Any) -> list[Request]:
        mapped.append(obj.name)
        assert len(mapped) < count or proceed.wait(60)
        return [Request("one")]

    slow, good = Seen(lambda *_: first.append(len(mapped)) if not first else None), Seen()
    first: list[int] = []
    watches = Watches("v1", "Secret", map=requests)
    host = ctrlhost_host(
        plugin_of(lambda plugin: plugin.add_controller("c", slow, watches), "slow"),
        plugin_of(lambda plugin: plugin.add_controller("c", good, For("v1", "Secret")), "good"),
        sandbox=sandbox,
        start=False,
    )
    host.host.start()
    eventually(lambda: len(good.requests) >= count)
    eventually(lambda: len(mapped) >= count)
    assert not slow.requests
    assert next(plugin for plugin in host.host.plugins if plugin.name == "slow").state == "syncing"
    proceed.set()
    eventually(lambda: slow.requests)
    assert first[0] >= count


@behaviour("supervision/IN14")
def test_a_reconcile_that_reads_an_index_that_hangs_is_retried(ctrlhost_host, proceed) -> None:
    stale: list[str] = []
    counts: list[int] = []

    def values(obj: Any) -> list[str]:
        assert obj.name != "hang" or proceed.wait(60)
        return [obj.name]

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        lister = ctx.lister("v1", "Secret")
        assert len(lister.by_index("path", request.name)) == 1
        try:
            counts.append(len(lister.by_index("slow", request.name)))
        except ctrlhost.Stale:
            stale.append(request.name)
            raise

    def good(ctx: ctrlhost.Context, request: Request) -> None:
        seen.append((request.name, len(ctx.lister("v1", "Secret").by_index("name", request.name))))

    seen: list[tuple[str, int]] = []
    slow = For("v1", "Secret", indexes={"slow": values, "path": "metadata.name"})
    host = ctrlhost_host(
        plugin_of(lambda plugin: plugin.add_controller("c", reconcile, slow), "bad"),
        plugin_of(
            lambda plugin: plugin.add_controller("c", good, For("v1", "Secret", indexes={"name": lambda o: [o.name]})),
            "good",
        ),
    )
    host.client.create(secret("hang"))
    eventually(lambda: seen == [("hang", 1)])
    eventually(lambda: stale)
    assert not counts
    proceed.set()
    eventually(lambda: counts == [1])


@behaviour("supervision/IN16")
def test_a_transform_of_a_plugin_belongs_to_it_alone(ctrlhost_host, proceed) -> None:
    def transform(obj: Any) -> Any:
        assert obj.name != "hang" or proceed.wait(60)
        return obj

    informers: list[Any] = []
    good = Seen()
    host = ctrlhost_host(
        plugin_of(lambda plugin: informers.append(plugin.informer("v1", "Secret", transform=transform)), "bad"),
        plugin_of(lambda plugin: plugin.add_controller("c", good, For("v1", "Secret")), "good"),
        supervision={"bad": {"deadlines": {"callback": "50ms"}, "restart_limit": 0}},
    )
    assert len([informer for informer in host.host.factory.informers() if informer.kind == "Secret"]) == 2
    host.client.create(secret("hang"))
    (bad,) = [plugin for plugin in host.host.plugins if plugin.name == "bad"]
    eventually(lambda: bad.failed)
    assert "transform of default/hang" in bad.reason
    host.client.create(secret("later"))
    eventually(lambda: {"hang", "later"} <= set(good.names()))
