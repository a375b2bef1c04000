"""Controllers that the settings enable, their rate limiters and handles, and the plugin's state in maps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost import Object, Request, Watches
from ctrlhost.errors import PluginError
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter
from tests.support.declared import declared
from tests.support.plugin_modules import config_map


class Settings(msgspec.Struct, frozen=True):
    enabled: bool = True
    delay: float = 10.0


@pytest.mark.parametrize("enabled", [True, False])
def test_settings_may_leave_a_controller_out(ctrlhost_host, enabled: bool) -> None:
    plugin = declared(settings=Settings)

    @plugin.controller("v1/ConfigMap", enabled=lambda settings: settings.enabled)
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None: ...

    @plugin.setup
    def setup(host: ctrlhost.PluginContext[Settings]) -> None:
        if enabled:
            assert (host.handle(reconcile).name, host.handle(reconcile).workers) == ("p/configmap", 1)
            return
        with pytest.raises(PluginError, match="`p/configmap` is not enabled"):
            host.handle(reconcile)

    host = ctrlhost_host(plugin, settings={"p": {"enabled": enabled}})
    assert host.host.plugins[0].state == "running"
    assert list(host.controllers) == ["p/configmap"] * enabled


def test_a_rate_limiter_sets_the_delays_of_retries(ctrlhost_host, manual_clock) -> None:
    plugin, attempts = declared(settings=Settings), []

    @plugin.controller(
        "v1/ConfigMap", rate_limiter=lambda settings: ItemExponentialFailureRateLimiter(settings.delay, 60.0)
    )
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        if obj.name == "bad":
            attempts.append(ctx.attempt)
            raise ValueError("not yet")

    host = ctrlhost_host(plugin, clock=manual_clock)
    host.client.create(config_map("bad"))
    for seconds, expected in ((9.0, [1]), (2.0, [1]), (18.0, [1, 2]), (2.0, [1, 2]), (0.0, [1, 2, 3])):
        host.run_until_idle()
        assert attempts == expected
        manual_clock.advance(seconds)


class Hooks:
    """A plugin with hooks whose controller has this back-off."""

    def __init__(self, reconcile: Any, retry: ctrlhost.Backoff) -> None:
        self._reconcile = reconcile
        self._retry = retry

    @ctrlhost.hookimpl
    def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("configmap", self._reconcile, ctrlhost.For("v1", "ConfigMap"), retry=self._retry)


def declared_with(retry: Any, reconcile: Any) -> ctrlhost.Plugin:
    plugin = declared()
    plugin.controller("v1/ConfigMap", retry=retry)(reconcile)
    return plugin


@pytest.mark.behaviour("findings3/NA4")
@pytest.mark.parametrize("operators", [False, True])
@pytest.mark.parametrize("form", ["constant", "settings", "hooks"])
def test_a_back_off_sets_the_delays_of_retries_unless_the_operator_does(
    ctrlhost_host, manual_clock, form: str, operators: bool
) -> None:
    started: list[float] = []

    def reconcile(ctx: ctrlhost.Context, obj: Any) -> None:
        if ctx.request.name == "bad":
            started.append(ctx.clock.now())
            raise ValueError("not yet")

    retry = ctrlhost.Backoff(first="1s", factor=3, max="5s", jitter=0.1)
    plugin: Any = {
        "constant": lambda: declared_with(retry, reconcile),
        "settings": lambda: declared_with(lambda settings: retry, reconcile),
        "hooks": lambda: Hooks(reconcile, retry),
    }[form]()
    name = "hooks" if form == "hooks" else "p"
    overrides = {f"{name}/configmap": {"base_delay": "2s"}} if operators else {}
    host = ctrlhost_host(plugin, clock=manual_clock, controllers=overrides)
    host.client.create(config_map("bad"))
    delays = (2, 5, 5) if operators else (1, 3, 5, 5)
    for runs, delay in enumerate(delays, start=1):
        host.run_until_idle()
        assert len(started) == runs
        manual_clock.advance(delay - 0.1)
        host.run_until_idle()
        assert len(started) == runs
        manual_clock.advance(0.1)


def test_hooks_enqueue_by_the_handle_and_maps_have_the_state(ctrlhost_host) -> None:
    plugin, gone = declared(), []

    @plugin.setup
    def setup(host: ctrlhost.PluginContext) -> dict[str, Any]:
        return {"handle": host.handle(reconcile), "mapped": []}

    @plugin.synced
    def synced(host: ctrlhost.PluginContext) -> None:
        host.state["handle"].enqueue(Request("missing", "default"))

    def of_secret(secret: Object, caches: ctrlhost.Caches) -> list[Request]:
        caches.state["mapped"].append(secret.name)
        return []

    @plugin.controller("v1/ConfigMap", watches=[Watches("v1/Secret", map=of_secret)], gone=True)
    def reconcile(ctx: ctrlhost.Context, obj: Object | None) -> None:
        if obj is None:
            gone.append(ctx.request.name)

    host = ctrlhost_host(plugin)
    host.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "default"}})
    host.run_until_idle()
    assert gone == ["missing"]
    assert host.host.plugins[0].attempt.context.state["mapped"] == ["key"]
