"""Why a key is not being reconciled: one verdict for each situation, with its facts."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request, Result, TerminalError
from ctrlhost.controller.history import RUNS
from ctrlhost.testing import ManualClock
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import controller
from tests.support.status import key_of
from tests.support.status_page import page_at

pytestmark = pytest.mark.behaviour("operations/OP63")

MINE = {"mine": "1"}


def labelled(name: str, namespace: str = "default") -> dict[str, Any]:
    return config_map(name, namespace, labels=MINE)


def test_a_key_in_each_situation_of_a_queue(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    release, begun = threading.Event(), threading.Event()

    def reconcile(ctx: ctrlhost.Context, request: Request) -> Result | None:
        match request.name:
            case "failing":
                raise KeyError("spec")
            case "later":
                return Result(requeue_after=60)
            case "given-up":
                raise TerminalError("the name is taken")
            case "long":
                begun.set()
                release.wait(60)
        return None

    plugin = controller(reconcile, For("v1", "ConfigMap", label_selector="mine"))
    options = {"controllers": {"demo/c": {"slow_after": "1h"}}, "listen": "127.0.0.1:0"}
    host = ctrlhost_host(plugin, clock=manual_clock, **options)
    for name in ("failing", "later", "given-up", "plain"):
        host.client.create(labelled(name))
    host.wait_for(lambda: host.controllers["demo/c"].status().runs >= 4)
    host.run_until_idle()

    failing = key_of(host, "demo/c", "default/failing")
    assert failing["verdict"] == "backing off"
    first, last = failing["facts"]
    assert first.startswith("1 failure, next run in 0.0 s")
    assert last.startswith("last error: KeyError: 'spec' (tests/host/status/test_keys.py:")
    assert last.endswith(f"reconcile {failing['reconciles'][0]['reconcile_id']}")
    assert failing["reconciles"][0]["result"] == "error"
    due = failing["due_seconds"]
    manual_clock.advance(0.002)
    assert key_of(host, "demo/c", "default/failing")["due_seconds"] == pytest.approx(due - 0.002)

    later = key_of(host, "demo/c", "default/later")
    assert (later["verdict"], later["reconciles"][0]["result"]) == ("delayed", "requeue_after")
    assert later["due_seconds"] == pytest.approx(60, abs=0.01)

    given_up = key_of(host, "demo/c", "default/given-up")
    assert (given_up["verdict"], given_up["due_seconds"]) == ("gave up", None)
    assert "TerminalError: the name is taken" in given_up["facts"][1]
    assert given_up["since"]
    plain = key_of(host, "demo/c", "default/plain")
    assert plain["verdict"] == "done"
    assert "ended in success" in plain["facts"][0]

    host.client.create(labelled("long"))
    assert begun.wait(30)
    processing = key_of(host, "demo/c", "default/long")
    assert processing["verdict"] == "processing"
    assert "threading.py" in processing["facts"][0]
    assert processing["since"]
    host.client.create(labelled("waits"))
    host.client.create(labelled("waits-too"))
    host.wait_for(lambda: len(host.controllers["demo/c"].queue) >= 2)
    queued = key_of(host, "demo/c", "default/waits-too")
    assert (queued["verdict"], queued["position"]) == ("queued", len(host.controllers["demo/c"].queue))
    assert queued["facts"][0].startswith(f"position {queued['position']} of {queued['position']}, priority 0")
    assert queued["facts"][1].startswith("a worker runs default/long for ")
    release.set()


def test_a_key_that_does_not_reach_the_queue(ctrlhost_host: Any) -> None:
    def only_yes(_old: Any, new: Any) -> bool:
        return new is not None and new.get_path("data", "pass") == "yes"

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("c", lambda ctx, request: None, For("v1", "ConfigMap", label_selector="mine"))
        plugin.add_controller("picky", lambda ctx, request: None, For("v1", "Secret", predicates=[only_yes]))
        plugin.add_controller("limited", lambda ctx, request: None, For("v1", "Service", namespaces=["a", "b"]))
        plugin.add_controller("free", lambda ctx, request: None)

    host = ctrlhost_host(plugin_of(setup), listen="127.0.0.1:0")
    host.client.create(config_map("other"))
    metadata = {"name": "dropped", "namespace": "default"}
    host.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    host.wait_for(lambda: host.controllers["demo/picky"].primary.lister.get("dropped", "default"))
    by_labels = key_of(host, "demo/c", "default/other")
    assert by_labels["verdict"] == "filtered"
    assert by_labels["facts"] == ["the object exists, but the source selects only labels `mine`"]
    by_predicate = key_of(host, "demo/picky", "default/dropped")
    assert (by_predicate["verdict"], by_predicate["reconciles"]) == ("filtered", [])
    assert "predicate" in by_predicate["facts"][0]
    by_namespace = key_of(host, "demo/limited", "c/any")
    assert by_namespace["verdict"] == "filtered"
    assert "namespace `c` is not among those of demo/limited: ('a', 'b')" in by_namespace["facts"][0]
    missing = key_of(host, "demo/c", "default/missing")
    assert missing["verdict"] == "not in the cache"
    assert missing["facts"] == ["informer ConfigMap.v1 labels=mine: watching", "the server has no such object"]
    unknown = key_of(host, "demo/free", "any")
    assert unknown["verdict"] == "unknown key"
    assert "none of its last 0 runs was of it" in unknown["facts"][0]


def test_a_predicate_that_hangs_takes_one_thread_however_often_it_is_asked(ctrlhost_host: Any) -> None:
    proceed = threading.Event()

    def hangs(_old: Any, _new: Any) -> bool:
        if threading.current_thread().name.endswith("/explain"):
            proceed.wait(60)
        return False

    plugin = controller(lambda ctx, request: None, For("v1", "ConfigMap", label_selector="mine", predicates=[hangs]))
    host = ctrlhost_host(plugin, listen="127.0.0.1:0")
    for name in ("a", "b"):
        host.client.create(labelled(name))
    host.wait_for(lambda: len(host.controllers["demo/c"].primary.lister.list()) == 2)
    for name in ("a", "a", "b"):
        verdict = key_of(host, "demo/c", f"default/{name}")
        assert verdict["verdict"] == "done"
        assert verdict["facts"][1].endswith("a predicate of the source does not answer")
        assert page_at(host, f"/status/keys/demo/c?key=default/{name}").status == 200
        assert len([thread for thread in threading.enumerate() if thread.name == "demo/explain"]) == 1
    proceed.set()
    host.wait_for(lambda: key_of(host, "demo/c", "default/b")["verdict"] == "filtered")
    host.wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name == "demo/explain"])


def test_runs_that_are_forgotten_are_not_taken_for_none(ctrlhost_host: Any) -> None:
    def only_kept(_old: Any, new: Any) -> bool:
        return new is not None and new.name != "dropped"

    plugin = controller(
        lambda ctx, request: None, For("v1", "ConfigMap", label_selector="mine", predicates=[only_kept])
    )
    host = ctrlhost_host(plugin, listen="127.0.0.1:0")
    for name in ("kept", "dropped"):
        host.client.create(labelled(name))
    handle = host.controllers["demo/c"]
    host.wait_for(lambda: key_of(host, "demo/c", "default/dropped")["verdict"] == "filtered")
    dropped = "a predicate of the source drops the addition of this object"
    assert key_of(host, "demo/c", "default/dropped")["facts"] == [dropped]
    host.wait_for(lambda: handle.history.runs)
    handle.history.runs.clear()
    assert key_of(host, "demo/c", "default/kept")["facts"] == ["not among the 0 runs since the start"]
    handle.queue.add_many([Request(f"other-{number}") for number in range(RUNS)])
    host.wait_for(lambda: handle.status().runs > RUNS)
    host.wait_for(lambda: len(handle.history.runs) == RUNS)
    kept = key_of(host, "demo/c", "default/kept")
    assert (kept["verdict"], kept["facts"]) == ("done", ["not among the last 200 runs"])
    facts = key_of(host, "demo/c", "default/dropped")["facts"]
    assert facts == [dropped, "not among the last 200 runs, before which it may have run"]


def test_a_key_of_a_plugin_that_does_not_run(ctrlhost_host: Any) -> None:
    source = For("example.com/v1", "Missing")
    host = ctrlhost_host(controller(lambda ctx, request: None, source), listen="127.0.0.1:0")
    host.wait_for(lambda: host.host.plugins[0].state == "waiting")
    verdict = key_of(host, "demo/c", "default/a")
    assert verdict["verdict"] == "plugin not running"
    assert verdict["facts"][0].startswith("plugin demo is waiting: Missing (example.com/v1): ")
    assert verdict["since"]

    def fail(_plugin: ctrlhost.PluginContext) -> None:
        raise ctrlhost.PluginLoadError("demo", "no settings")

    failed = ctrlhost_host(plugin_of(fail), listen="127.0.0.1:0")
    verdict = key_of(failed, "demo/c", "default/a")
    assert (verdict["verdict"], verdict["facts"]) == ("plugin not running", ["plugin demo is failed: no settings"])


def test_a_key_of_a_host_that_stops(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(controller(lambda ctx, request: None, For("v1", "ConfigMap")), listen="127.0.0.1:0")
    host.host.stopping.set()
    assert key_of(host, "demo/c", "default/a")["verdict"] == "host stopping"


def test_a_key_of_a_standby_names_the_leader(ctrlhost_host: Any) -> None:
    plugin = controller(lambda ctx, request: None, For("v1", "ConfigMap"))
    leader = ctrlhost_host(plugin, leader_elect=True)
    leader.wait_for(lambda: leader.host.leadership.leases()[0].mine)
    identity = leader.host.leadership.identity
    standby = ctrlhost_host(plugin, sandbox=leader.sandbox, leader_elect=True, listen="127.0.0.1:0")
    standby.wait_for(lambda: standby.host.leadership.leases()[0].holder == identity)
    verdict = key_of(standby, "demo/c", "default/a")
    assert (verdict["verdict"], verdict["facts"]) == ("standby", [f"{identity} leads; this replica stands by"])
