"""Functions that raise, outside of a reconcile: a host with one has not settled."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Request, Watches
from tests.support.plugin_modules import config_map, plugin_of
from tests.unit.testing.settling import ANN, not_settled, reconciling

behaviour = pytest.mark.behaviour


@behaviour("authoring/AT6")
@pytest.mark.parametrize("use", ["map", "predicate", "handler", "index", "transform"])
def test_a_callback_that_raises_fails_the_test(ctrlhost_host, use: str) -> None:
    def broken(*objects: Any) -> Any:
        raise ZeroDivisionError("by nothing")

    def setup(plugin: ctrlhost.PluginContext) -> None:
        more: dict[str, Any] = {"map": {"map": broken}, "predicate": {"predicates": [broken]}}.get(use, {})
        source = Watches("v1", "ConfigMap", label_selector="mine", **({"map": lambda obj: []} | more))
        plugin.add_controller("c", lambda ctx, request: None, source)
        transform = broken if use == "transform" else None
        informer = plugin.informer("v1", "ConfigMap", label_selector="mine", transform=transform)
        if use == "handler":
            informer.add_handler(on_add=broken)
        elif use == "index":
            informer.add_indexers({"broken": broken})

    host = ctrlhost_host(plugin_of(setup))
    host.settle()
    host.apply(ANN)
    why = not_settled(host)
    assert re.search(rf"{use} .*broken for ConfigMap.* raised: ZeroDivisionError: by nothing", why)
    if use in ("handler", "transform"):
        assert "(tests/unit/testing/test_callback_errors.py:" in why
    # It was reported.
    host.settle()


@behaviour("authoring/AT6")
def test_the_function_of_an_index_is_awaited(ctrlhost_host) -> None:
    release = threading.Event()

    def slow(obj: Any) -> list[str]:
        release.wait(30)
        raise ZeroDivisionError("by nothing")

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.informer("v1", "ConfigMap", label_selector="mine").add_indexers({"slow": slow})

    host = ctrlhost_host(plugin_of(setup))
    host.apply(ANN)
    assert re.search("informer ConfigMap.*: the index slow is behind its cache", not_settled(host, timeout=1))
    release.set()
    assert "raised: ZeroDivisionError: by nothing" in not_settled(host)


@behaviour("authoring/AT6")
def test_errors_of_functions_of_one_name_are_all_reported(ctrlhost_host) -> None:
    def failing_for(name: str) -> Any:
        return lambda obj: 1 / 0 if obj.name == name else []

    sources = [Watches("v1", "ConfigMap", label_selector="mine", map=failing_for(name)) for name in ("ann", "bob")]
    host = ctrlhost_host(reconciling(lambda ctx, request: None, *sources))
    for name in ("ann", "bob"):
        host.apply(config_map(name, labels={"mine": "1"}))
        assert "ZeroDivisionError" in not_settled(host)


@behaviour("authoring/AT6")
def test_errors_after_a_restart_are_reported_too(ctrlhost_host) -> None:
    def broken(obj: Any) -> list[Request]:
        raise ZeroDivisionError("by nothing")

    source = Watches("v1", "ConfigMap", label_selector="mine", map=broken)
    host = ctrlhost_host(reconciling(lambda ctx, request: None, source), supervision={"restart_delay": 0.01})
    host.apply(ANN, config_map("bob", labels={"mine": "1"}))
    assert "ZeroDivisionError" in not_settled(host)
    host.delete("v1/ConfigMap", "bob")
    assert "ZeroDivisionError" in not_settled(host)
    (plugin,) = host.host.plugins
    plugin.failed_now(plugin.attempt, "for the test")
    host.wait_for(lambda: plugin.restarted and plugin.state == "running")
    assert "ZeroDivisionError" in not_settled(host)
