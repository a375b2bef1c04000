"""Plugins that own objects, for tests of `ctx.ensure` and `ctx.prune`, and the requests of their hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ctrlhost
from tests.support.plugin_modules import config_map

PLUGIN = "memcached"
ANNOTATION = f"applied.ctrlhost.dev/{PLUGIN}"
_OF_THE_HOST = ("", "events", "selfsubjectaccessreviews")
#: The label of the ConfigMaps that the operators reconcile.
MINE = {"mine": "1"}


def operator(
    reconcile: Callable[..., Any],
    *owns: Any,
    kind: Any = None,
    plugin: ctrlhost.Plugin[None] | None = None,
    **options: Any,
) -> ctrlhost.Plugin[None]:
    """Return a plugin `memcached` that reconciles ConfigMaps with the label `mine`, and owns Deployments by default."""
    declared = ctrlhost.Plugin() if plugin is None else plugin
    declared.__name__ = PLUGIN
    source = ctrlhost.For("v1/ConfigMap", label_selector="mine") if kind is None else kind
    declared.controller(source, name="memcached", owns=list(owns) or ["apps/v1/Deployment"], **options)(reconcile)
    return declared


def mine(name: str = "cache", namespace: str = "default", /, **data: str) -> dict[str, Any]:
    """Return an object that the operators reconcile."""
    return config_map(name, namespace, labels=MINE, **data)


def deployment(name: str = "cache", **spec: Any) -> dict[str, Any]:
    """Return a Deployment as an operator wants it."""
    labels = {"app": name}
    container = {"name": "memcached", "image": "memcached:1.6", "env": [{"name": "A", "value": "1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def controlled(obj: dict[str, Any], owner: dict[str, Any]) -> dict[str, Any]:
    """Return the object with `owner`, as the server sent it, as its controller."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


class Requests:
    """The requests of a host about single objects, but for those of the host itself."""

    def __init__(self, host: Any) -> None:
        """Record from now on."""
        self._take = host.faults.take
        self._seen: list[str] = []
        #: Called before a request is sent, by `verb resource`.
        self.before: dict[str, Callable[[], Any]] = {}
        host.faults.take = self._noted

    def _noted(self, request: Any) -> Exception | None:
        if request.verb not in ("list", "watch") and request.resource not in _OF_THE_HOST:
            self._seen.append(f"{request.verb} {request.resource} {request.name}")
            if act := self.before.pop(f"{request.verb} {request.resource}", None):
                act()
        error: Exception | None = self._take(request)
        return error

    def new(self) -> list[str]:
        """Return those since the last call, as `verb resource name`."""
        seen, self._seen = self._seen, []
        return seen


def stored(host: Any, name: str = "cache", kind: tuple[str, str] = ("apps/v1", "Deployment")) -> dict[str, Any]:
    """Return a stored object."""
    obj: dict[str, Any] = host.client.get(*kind, name, "default")
    return obj


def reasons(host: Any, *only: str) -> list[tuple[str, str, int]]:
    """Return reason, note and number of the host's events about the reconciled objects, oldest first."""
    return [
        (event["reason"], event.get("note", ""), (event.get("series") or {}).get("count", 1))
        for event in host.events()
        if event["reportingController"] == f"ctrlhost-{PLUGIN}" and (not only or event["reason"] in only)
    ]


def run_again(host: Any, *names: str, namespace: str = "default") -> None:
    """Run the reconciler for these objects, and wait until the host is idle."""
    queue = host.controllers[f"{PLUGIN}/memcached"].queue
    for name in names or ("cache",):
        queue.add(ctrlhost.Request(name, namespace))
    host.run_until_idle()


def errors(host: Any) -> int:
    """Return the number of failed runs."""
    count: int = host.controllers[f"{PLUGIN}/memcached"].status().errors
    return count
