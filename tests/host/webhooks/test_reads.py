"""What the function of a webhook reads from caches."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost.testing import StartHost
from ctrlhost.webhooks import review
from tests.unit.webhooks.reviews import answer, request

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}}


#: A kind of which nobody else makes objects.
KIND = "v1/Secret"


def secret(name: str, namespace: str, team: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"team": team}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def plugin_of(reads: list[str], seen: list[Any]) -> ctrlhost.Plugin:
    plugin = ctrlhost.Plugin()

    @plugin.index(KIND)
    def by_team(obj: ctrlhost.Object) -> list[str]:
        return [obj.labels["team"]]

    @plugin.validate("v1/Pod", reads=reads)
    def check(ctx: ctrlhost.Admission, new: Any, old: Any) -> None:
        cache = ctx.cache(KIND)
        names = [obj.name for obj in cache.list()], sorted(obj.key for obj in cache.list(None))
        seen.append((*names, [obj.key for obj in cache.by_index(by_team, "blue")], cache.get("a") is not None))

    return plugin


@pytest.mark.parametrize("controller", [None, KIND, ctrlhost.For(KIND, label_selector="x=y")])
def test_a_webhook_reads_what_it_declares_with_the_indexes_of_the_plugin(
    ctrlhost_host: StartHost, controller: Any
) -> None:
    seen: list[Any] = []
    plugin: Any = plugin_of([KIND], seen)
    if controller is not None:
        plugin.controller(controller)(lambda ctx, obj: None)
    host = ctrlhost_host(plugin)
    for namespace in ("shop", "other"):
        host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    host.apply(secret("a", "shop", "blue"), secret("b", "other", "blue"), secret("c", "other", "red"))
    host.settle()
    (loaded,) = host.host.plugins
    context = loaded.context
    assert context is not None
    # Twice: the second call finds the index.
    for _ in range(2):
        assert review.answer(context.webhooks[0], request(POD), context).denied is False
    everything = ["other/b", "other/c", "shop/a"]
    assert [(names, keys) for names, keys, *_ in seen] == [(["a"], everything)] * 2
    assert [(sorted(blue), found) for *_, blue, found in seen] == [(["other/b", "shop/a"], True)] * 2


def test_without_reads_it_is_what_the_controllers_declare(ctrlhost_host: StartHost) -> None:
    seen: list[Any] = []
    plugin: Any = plugin_of([], seen)
    plugin.controller(KIND)(lambda ctx, obj: None)
    host = ctrlhost_host(plugin)
    host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    host.apply(secret("a", "shop", "blue"))
    host.settle()
    (loaded,) = host.host.plugins
    assert answer(loaded.context, request(POD))["allowed"]
    assert seen == [(["a"], ["shop/a"], ["shop/a"], True)]
