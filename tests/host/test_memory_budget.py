"""The memory budget of a host: what its health says, and what plugins read while an informer is over it."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import pytest

import ctrlhost
from ctrlhost import ConfigError, For, Request, Stale
from ctrlhost.testing import ManualClock
from tests.support.plugin_modules import config_map
from tests.support.reconcilers import controller

BUDGET = 1 << 20
MINE = {"mine": "1"}
DATA = "x" * 20_000
SOURCE = For("v1", "ConfigMap", label_selector="mine")


def large(number: int, namespace: str = "default") -> dict[str, Any]:
    """Return a ConfigMap of which the budget holds about 50."""
    return config_map(f"large-{number:03}", namespace, labels=MINE, data=DATA)


def ready(host: Any) -> tuple[int, str]:
    """Return the status and the text of `/readyz?verbose`."""
    request = urllib.request.Request(f"http://{host.host.address}/readyz?verbose")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(host: Any, name: str, **labels: str) -> float | None:
    return host.host.state.metrics.registry.get_sample_value(name, labels)


@pytest.mark.behaviour("scale/SC109")
def test_the_health_of_a_host_names_an_informer_whose_first_list_does_not_fit(ctrlhost_host, sandbox) -> None:
    host = ctrlhost_host(
        controller(lambda ctx, request: None, SOURCE),
        sandbox=sandbox,
        start=False,
        informers={"memory_budget": BUDGET},
        listen="127.0.0.1:0",
    )
    for number in range(100):
        host.client.create(large(number))
    host.host.start()
    host.wait_for(lambda: "over budget" in ready(host)[1])
    status, text = ready(host)
    assert status == 503
    assert "plugin/demo" in text
    line = next(entry for entry in text.splitlines() if "informer/ConfigMap" in entry)
    assert "over budget, 0 objects" in line
    assert "memory budget of 1 MiB reached after " in line


@pytest.mark.behaviour("scale/SC110")
def test_a_plugin_is_degraded_and_a_list_after_a_write_stale_while_its_informer_is_over_the_budget(
    ctrlhost_host, manual_clock: ManualClock
) -> None:
    seen: list[Any] = []

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        if request.name != "go" or seen:
            return
        ctx.client.create(config_map("copy", labels=MINE, a="1"))
        seen.append(ctx.get(Request("copy", request.namespace))["data"]["a"])
        try:
            ctx.lister("v1", "ConfigMap").list()
        except Stale as error:
            seen.append(str(error))

    host = ctrlhost_host(
        controller(reconcile, SOURCE),
        clock=manual_clock,
        informers={"memory_budget": BUDGET},
        listen="127.0.0.1:0",
    )
    (informer,) = (entry for entry in host.host.factory.informers() if entry.kind == "ConfigMap")
    host.client.create(config_map("go-on", labels=MINE))
    for number in range(60):
        host.client.create(large(number))
    host.wait_for(lambda: informer.state == "over budget")
    host.controllers["demo/c"].queue.add(Request("go", "default"))
    host.wait_for(lambda: len(seen) == 2)
    own, stale = seen
    assert own == "1"
    assert stale == f"the cache does not show the write of default/copy: {informer.reason}"
    entries = host.host.plugins[0].entries
    host.wait_for(lambda: "over-budget" in entries.degraded)
    assert entries.degraded["over-budget"] == f"{informer.key}: {informer.reason}"
    assert metric(host, "ctrlhost_plugin_degraded", plugin="demo", reason="over-budget") == 1
    status, text = ready(host)
    assert status == 200
    assert "degraded: over-budget: ConfigMap" in text
    assert f"over budget, {len(informer.lister.list())} objects" in text
    for number in range(40):
        host.client.delete("v1", "ConfigMap", f"large-{number:03}", "default")
    manual_clock.advance(300)
    host.wait_for(lambda: informer.state == "watching")
    host.wait_for(lambda: "over-budget" not in entries.degraded)
    assert {obj.name for obj in informer.lister.list()} >= {"copy", "large-059"}


def test_a_namespace_that_fits_shows_own_writes_while_another_is_over_the_budget(ctrlhost_host) -> None:
    seen: list[Any] = []

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        if request.name == "go" and not seen:
            ctx.client.create(config_map("copy", labels=MINE))
            seen.extend(obj.name for obj in ctx.lister("v1", "ConfigMap").list("default"))

    source = For("v1", "ConfigMap", label_selector="mine", namespaces=["default", "full"])
    host = ctrlhost_host(controller(reconcile, source), informers={"memory_budget": BUDGET})
    (informer,) = (entry for entry in host.host.factory.informers() if entry.kind == "ConfigMap")
    host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}})
    for number in range(60):
        host.client.create(large(number, "full"))
    host.wait_for(lambda: informer.state == "over budget")
    host.controllers["demo/c"].queue.add(Request("go", "default"))
    host.wait_for(lambda: seen)
    assert seen == ["copy"]


@pytest.mark.behaviour("scale/SC113")
def test_a_host_with_a_negative_budget_does_not_start(ctrlhost_host) -> None:
    host = ctrlhost_host(controller(lambda ctx, request: None, SOURCE), start=False, informers={"memory_budget": -1})
    with pytest.raises(ConfigError, match=r"informers\.memory_budget: a size must not be negative"):
        host.start()
