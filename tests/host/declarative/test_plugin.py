"""A `ctrlhost.Plugin` in a host on the sandbox."""

from __future__ import annotations

import re
import threading

import msgspec
import pytest

import ctrlhost
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter
from tests.support.plugin_modules import config_map


def test_a_declared_controller_reconciles_its_objects(ctrlhost_host) -> None:
    plugin = ctrlhost.Plugin()

    @plugin.controller("v1/ConfigMap")
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        if obj.name == "greeter":
            ctx.client.apply(config_map("greeting", text=f"hello {obj['data']['name']}"))

    host = ctrlhost_host(plugin)
    host.client.create(config_map("greeter", name="world"))
    host.run_until_idle()
    assert host.client.get("v1", "ConfigMap", "greeting", "default")["data"] == {"text": "hello world"}


class Settings(msgspec.Struct, frozen=True):
    namespace: str = "default"
    secrets: bool = False
    workers: int = 2
    period: str = "10s"


def configured() -> ctrlhost.Plugin[Settings]:
    plugin = ctrlhost.Plugin(settings=Settings)

    @plugin.controller(
        lambda settings: ctrlhost.For("v1/ConfigMap", namespaces=[settings.namespace]),
        name="configmaps",
        rate_limiter=lambda settings: ItemExponentialFailureRateLimiter(float(settings.workers), 60.0),
        watches=lambda settings: ["v1/Secret"] if settings.secrets else [],
        workers=lambda settings: settings.workers,
        every=lambda settings: settings.period,
    )
    def reconcile(ctx: ctrlhost.Context[ctrlhost.Object, Settings], obj: ctrlhost.Object) -> None: ...

    @plugin.task(every=lambda settings: settings.period, first_after=lambda settings: settings.period)
    def tick(host: ctrlhost.PluginContext, stop: threading.Event) -> None: ...

    return plugin


@pytest.mark.parametrize("secrets", [False, True])
def test_options_may_be_functions_of_the_settings(ctrlhost_host, secrets: bool) -> None:
    plugin = configured()
    host = ctrlhost_host(plugin, settings={plugin.__name__: {"secrets": secrets, "workers": 3, "period": "1m"}})
    (controller,) = host.controllers.values()
    assert controller.options.workers == 3
    assert controller.options.rate_limiter.when("key") == 3.0
    assert controller.sources[0].namespaces == ("default",)
    assert [informer.kind for informer in controller.informers] == ["ConfigMap", *["Secret"][:secrets]]
    assert "every 60 s" in [source.describe() for source in controller.sources]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"workers": 0}, "reconcile: workers is 0"), ({"period": "soon"}, "every: .*soon")],
    ids=["workers", "period"],
)
def test_what_functions_of_the_settings_return_is_checked(ctrlhost_host, settings, problem: str) -> None:
    plugin = configured()
    (runtime,) = ctrlhost_host(plugin, settings={plugin.__name__: settings}).host.plugins
    assert runtime.state == "failed"
    assert re.search(problem, runtime.reason)


def test_a_controller_whose_kind_depends_on_the_settings_has_a_name(ctrlhost_host) -> None:
    plugin = ctrlhost.Plugin()
    plugin.controller(lambda settings: ctrlhost.For("v1/ConfigMap"), workers=2)(lambda ctx, obj: None)
    (runtime,) = ctrlhost_host(plugin).host.plugins
    assert "has no name, and its kind depends on the settings" in runtime.reason


def test_a_function_of_the_settings_takes_the_settings(ctrlhost_host) -> None:
    plugin = ctrlhost.Plugin()
    plugin.controller("v1/ConfigMap", workers=lambda: 2)(lambda ctx, obj: None)  # type: ignore[arg-type, misc]
    (runtime,) = ctrlhost_host(plugin).host.plugins
    assert "workers takes (), but is called with (settings)" in runtime.reason
