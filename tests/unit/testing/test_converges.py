"""Actions in random orders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request
from ctrlhost.testing import HostUnderTest, NotSettled, converges
from tests.support.plugin_modules import config_map, plugin_of

behaviour = pytest.mark.behaviour
ACTIONS = [config_map(name, labels={"mine": "1"}) for name in ("ann", "bob", "cid")]


def copying(ordered: bool) -> Any:
    """Return a plugin that lists names in a ConfigMap: sorted, or in the order in which it has seen them."""

    def setup(plugin: ctrlhost.PluginContext) -> None:
        seen: list[str] = []

        def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
            copies = [obj.name for obj in ctx.lister("v1", "ConfigMap").list()]
            seen.extend(name for name in sorted(copies) if name not in seen)
            names = seen if ordered else sorted(copies)
            ctx.client.apply(config_map("names", names=" ".join(names)))

        plugin.add_controller("c", reconcile, For("v1", "ConfigMap", label_selector="mine"))

    return plugin_of(setup)


def one_by_one(action: Any) -> Any:
    """Apply an object and settle, so that the plugin sees the order."""

    def apply(host: HostUnderTest) -> None:
        host.apply(action)
        host.settle()

    return apply


@behaviour("authoring/AT15")
def test_an_outcome_that_depends_on_the_order_is_reported_with_order_and_seed(monkeypatch) -> None:
    actions = [one_by_one(action) for action in ACTIONS]
    reports = []
    for _ in range(2):
        with pytest.raises(AssertionError) as caught:
            converges(copying(ordered=True), actions, kinds=["v1/ConfigMap"])
        report = str(caught.value)
        reports.append(report)
        match = re.search(r"repeat this order with CTRLHOST_SEED=(\d+):\n((?:  \d\. action \d: .*\n)+)", report)
        assert match is not None, report
        order = re.findall(r"(\d)\. action (\d): one_by_one\.<locals>\.apply \(line \d+\)", match[2])
        assert [place for place, _ in order] == ["1", "2", "3"]
        assert sorted(action for _, action in order) == ["1", "2", "3"]
        names = {"1": "ann", "2": "bob", "3": "cid"}
        assert "-  names: ann bob cid" in report
        assert f"+  names: {' '.join(names[action] for _, action in order)}" in report
        # With that seed the first order fails again.
        monkeypatch.setenv("CTRLHOST_SEED", match[1])
    assert reports[0] == reports[1]
    with pytest.raises(AssertionError, match=f"CTRLHOST_SEED={match[1]}:"):
        converges(copying(ordered=True), actions, kinds=["v1/ConfigMap"], runs=1, seed=int(match[1]))


@behaviour("authoring/AT15")
def test_an_order_in_which_something_fails_is_named_with_its_seed() -> None:
    def remove(host: HostUnderTest) -> None:
        host.delete("v1/ConfigMap", "ann")

    with pytest.raises(ctrlhost.NotFound) as caught:
        converges(copying(ordered=False), [ACTIONS[0], remove], kinds=["v1/ConfigMap"])
    (note,) = caught.value.__notes__
    match = re.match(r"it failed in one order; repeat this order with CTRLHOST_SEED=(\d+):\n  1\. action 2: ", note)
    assert match is not None, note
    with pytest.raises(ctrlhost.NotFound):
        converges(copying(ordered=False), [ACTIONS[0], remove], kinds=["v1/ConfigMap"], runs=1, seed=int(match[1]))


@behaviour("authoring/AT15")
@pytest.mark.slow
def test_the_sample_operator_converges_in_fifty_orders(monkeypatch) -> None:
    folder = Path(__file__).parents[3] / "examples" / "memcached"
    monkeypatch.syspath_prepend(str(folder))
    from memcached import Memcached, plugin

    example = folder / "cache.yaml"

    def resize(host: HostUnderTest) -> None:
        host.apply(example)
        host.patch(Memcached, "cache", {"spec": {"size": 3}})

    def tamper(host: HostUnderTest) -> None:
        host.settle()
        for deployment in host.list("apps/v1/Deployment"):
            host.delete("apps/v1/Deployment", deployment.name)

    another = example.read_text().replace("name: cache", "name: another")
    converges(plugin, [another, resize, tamper], kinds=[Memcached, "apps/v1/Deployment"], runs=50)


def test_some_orders_of_mappings_and_functions_converge() -> None:
    again: list[Any] = [*ACTIONS, lambda host: host.apply(ACTIONS[0])]
    converges(copying(ordered=False), again, kinds=["v1/ConfigMap"], runs=3, seed=1)


def test_a_host_that_does_not_settle_fails() -> None:
    def fail(ctx: Any, request: Request) -> None:
        raise ctrlhost.TerminalError("no")

    plugin = plugin_of(lambda plugin: plugin.add_controller("c", fail, For("v1", "ConfigMap", label_selector="mine")))
    with pytest.raises(NotSettled, match="failed for good"):
        converges(plugin, ACTIONS, kinds=["v1/ConfigMap"], runs=1)


@pytest.mark.parametrize(
    ("actions", "kinds", "runs"),
    [([], ["v1/ConfigMap"], 20), (ACTIONS, [], 20), (ACTIONS, ["v1/ConfigMap"], 0)],
)
def test_nothing_to_do_or_to_compare_is_an_error(actions: list[Any], kinds: list[str], runs: int) -> None:
    with pytest.raises(ValueError, match="at least one action, one kind and one run"):
        converges(copying(ordered=False), actions, kinds=kinds, runs=runs)
