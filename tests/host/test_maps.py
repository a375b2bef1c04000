"""Triggers by label and by index, and the cost of Python functions, on a real API server."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost import ByIndex, ByLabel, For, Request, Watches, _core
from tests.support.plugin_modules import config_map
from tests.support.reconcilers import controller

LABEL = "demo.test/of"


class Seen(list[str]):
    """A reconciler that records its keys."""

    def __call__(self, ctx: ctrlhost.Context, request: Request) -> None:
        self.append(f"{request.namespace}/{request.name}")


def secret(name: str, namespace: str = "default", **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def test_a_label_names_the_reconciled_object_before_and_after_a_change(ctrlhost_host) -> None:
    seen = Seen()
    host = ctrlhost_host(controller(seen, Watches("v1", "Secret", map=ByLabel(LABEL))))
    host.client.create(secret("a", **{LABEL: "one"}))
    host.client.create(secret("b"))
    host.run_until_idle()
    assert seen == ["default/one"]
    host.client.patch("v1", "Secret", "a", "default", {"metadata": {"labels": {LABEL: "two"}}})
    host.run_until_idle()
    assert sorted(seen[1:]) == ["default/one", "default/two"]


def test_a_label_may_include_the_namespace_or_name_a_cluster_scoped_object(ctrlhost_host) -> None:
    seen = Seen()
    by = ByLabel(LABEL, namespace="demo.test/in"), ByLabel(LABEL, cluster_scoped=True)
    host = ctrlhost_host(controller(seen, *(Watches("v1", "Secret", map=function) for function in by)))
    host.client.create(secret("a", **{LABEL: "one", "demo.test/in": "there"}))
    host.run_until_idle()
    assert sorted(seen) == ["/one", "there/one"]


@pytest.mark.parametrize(
    "namespaces", [None, ["default"], ["defau*"]], ids=["one-cache", "a-namespace", "followed-namespaces"]
)
def test_an_index_finds_the_users_of_a_changed_object(ctrlhost_host, namespaces: list[str] | None) -> None:
    seen = Seen()
    users = For(
        "v1",
        "ConfigMap",
        namespaces=namespaces,
        label_selector="mine",
        indexes={"secret": lambda obj: [f"{obj.namespace}/{obj['data']['secret']}"]},
    )
    # The source that uses the index may precede the one that declares it.
    host = ctrlhost_host(controller(seen, Watches("v1", "Secret", map=ByIndex("secret")), users))
    for name, used in (("ann", "x"), ("bob", "x"), ("eve", "y")):
        host.client.create(config_map(name, labels={"mine": "1"}, secret=used))
    host.run_until_idle()
    seen.clear()
    host.client.create(secret("x"))
    host.run_until_idle()
    assert sorted(seen) == ["default/ann", "default/bob"]


def test_an_undeclared_index_is_refused(ctrlhost_host) -> None:
    host = ctrlhost_host(controller(Seen(), For("v1", "Pod"), Watches("v1", "Secret", map=ByIndex("none"))))
    (plugin,) = host.host.plugins
    assert plugin.failed
    assert "`ByIndex` needs the index `none`" in plugin.reason


def passes(_old: Any, _new: Any) -> bool:
    return True


def to_all(_obj: Any) -> list[Request]:
    return [Request("all")]


def fails(_old: Any, _new: Any) -> bool:
    raise ValueError("broken")


def test_the_cost_of_functions_is_in_the_metrics_and_that_of_built_in_ones_is_not(ctrlhost_host) -> None:
    sources = (
        For("v1", "ConfigMap", label_selector="mine", predicates=[ctrlhost.predicates.generation_changed]),
        Watches("v1", "Secret", label_selector="mine", map=to_all, predicates=[passes, fails]),
    )
    host = ctrlhost_host(controller(Seen(), *sources))
    for number in range(3):
        host.client.create(config_map(f"c{number}", labels={"mine": "1"}))
        host.client.create(secret(f"s{number}", mine="1"))
    host.run_until_idle()
    counted: dict[tuple[str, str], dict[str, float]] = {}
    for family in host.host.factory.metrics.collect():
        if family.name.startswith("ctrlhost_handler_"):
            for sample in family.samples:
                key = sample.labels["use"], sample.labels["function"].rpartition(".")[2]
                counted.setdefault(key, {})[family.name.rpartition("_")[2]] = sample.value
    assert sorted(counted) == [("map", "to_all"), ("predicate", "fails"), ("predicate", "passes")]
    assert {key: cost["calls"] for key, cost in counted.items()} == dict.fromkeys(counted, 3)
    assert {key: cost["errors"] for key, cost in counted.items()} == {
        ("map", "to_all"): 0,
        ("predicate", "fails"): 3,
        ("predicate", "passes"): 0,
    }
    assert all(cost["seconds"] > 0 for cost in counted.values())


def test_a_measured_function_is_available() -> None:
    measured = _core.CallbackMetrics(passes)
    assert measured.function is passes
    assert (measured.calls, measured.seconds, measured.errors) == (0, 0.0, 0)
