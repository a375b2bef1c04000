"""The maps of the bundled plugins read the caches that they get, which are full, and no informer."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).parent
#: The settings with which each plugin has all its maps.
SETTINGS: dict[str, dict[str, Any]] = {
    "bitcoin": {},
    "hostname": {"rest-address": "127.0.0.1", "rest-port": 0},
    "ingress-status": {"class-mode": "controller", "ingress-class-controller": "example.com/ingress"},
    "naming": {},
}
#: The plugins with maps that are Python functions.
MAPPING = {"bitcoin", "hostname", "naming"}
#: Objects of kinds that the examples of a plugin lack.
FURTHER: dict[str, list[dict[str, Any]]] = {
    "bitcoin": [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "no-pod", "namespace": "default"},
            "involvedObject": {"kind": "StatefulSet", "name": "harbour-sts", "namespace": "default"},
            "reason": "FailedCreate",
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "harbour-sts-0",
                "namespace": "default",
                "labels": {"bitcoincontroller.christianb93.github.com/network": "harbour"},
            },
            "spec": {"containers": [{"name": "bitcoind", "image": "bitcoind"}]},
        },
    ],
}


class Maps:
    """Records the calls of maps, and the informers that they read."""

    def __init__(self) -> None:
        """Start without maps."""
        self.declared: set[str] = set()
        self.called: set[str] = set()
        self.read: list[str] = []
        self._current = threading.local()

    def add_controller(
        self, original: Any, plugin: Any, name: str, reconcile: Any, *sources: Any, **options: Any
    ) -> Any:
        """Add a controller whose maps are recorded."""
        return original(plugin, name, reconcile, *map(self._recorded, sources), **options)

    def informer(self, original: Any, plugin: Any, *kind: Any, **options: Any) -> Guarded:
        """Return an informer whose use in a map is recorded."""
        return Guarded(original(plugin, *kind, **options), self)

    def note(self, attribute: str) -> None:
        """Record that the attribute of an informer is read, if that is in a map."""
        if kind := getattr(self._current, "kind", None):
            self.read.append(f"the map of {kind} reads `{attribute}` of an informer")

    def _recorded(self, source: Any) -> Any:
        mapping = getattr(source, "map", None)
        if not isinstance(source, ctrlhost.Watches) or not callable(mapping):
            return source
        self.declared.add(source.kind)

        @wraps(mapping)
        def recorded(*arguments: Any) -> list[ctrlhost.Request]:
            self._current.kind = source.kind
            try:
                return list(mapping(*arguments))
            finally:
                self._current.kind = None
                self.called.add(source.kind)

        return replace(source, map=recorded)


class Guarded:
    """An informer, or a part of one, that notes when a map uses it."""

    def __init__(self, real: Any, maps: Maps) -> None:
        """Guard `real`."""
        self._real, self._maps = real, maps

    def __getattr__(self, name: str) -> Any:
        """Note the use and return the real attribute."""
        self._maps.note(name)
        attribute = getattr(self._real, name)
        return Guarded(attribute, self._maps) if name in ("lister", "indexer") else attribute


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> Maps:
    """The maps of the plugins that the test starts."""
    maps = Maps()
    for name in ("add_controller", "informer"):
        original = getattr(ctrlhost.PluginContext, name)
        wrapper = getattr(maps, name)
        monkeypatch.setattr(
            ctrlhost.PluginContext,
            name,
            lambda plugin, *arguments, w=wrapper, o=original, **more: w(o, plugin, *arguments, **more),
        )
    return maps


def examples(plugin: str) -> Iterable[Path]:
    """Return the examples to apply; those to delete stay out, and those that the server does not serve."""
    left_out = ("delete", "conflict", "waiting")
    paths = sorted((HERE / plugin / "examples").glob("*.yaml"))
    return (path for path in paths if not any(word in path.name for word in left_out))


@pytest.mark.behaviour("authoring/AD8")
@pytest.mark.parametrize("plugin", sorted(SETTINGS))
def test_no_map_of_a_bundled_plugin_reads_an_informer(
    plugin: str, maps: Maps, ctrlhost_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ctrlhost_bitcoin.rpc.client import RpcClient

    from examples.bitcoind.fake_daemon import FakeHttp

    monkeypatch.setattr("ctrlhost_bitcoin.parts.RpcClient", partial(RpcClient, http=FakeHttp()))
    host = ctrlhost_host(plugin, settings={plugin: SETTINGS[plugin]}, start=False, least_privilege=False)
    module = import_module(f"ctrlhost_{plugin.replace('-', '_')}")
    host.apply(*getattr(module, "ctrlhost_crds", list)())
    host.start(check=True)
    assert bool(maps.declared) == (plugin in MAPPING)
    if maps.declared:
        host.apply(*FURTHER.get(plugin, ()), *examples(plugin))
    host.wait_for(lambda: maps.called == maps.declared)
    assert maps.read == []


def test_every_bundled_plugin_is_tried() -> None:
    # `kopf` is no plugin: it runs the files of others.
    declared = (path for path in HERE.glob("*/pyproject.toml") if "entry-points.ctrlhost]" in path.read_text())
    assert sorted(SETTINGS) == sorted(path.parent.name for path in declared)


def test_an_informer_that_a_map_reads_is_recorded(maps: Maps, ctrlhost_host: Any) -> None:
    class Reading:
        @ctrlhost.hookimpl
        def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
            secrets = plugin.informer("v1", "Secret")
            source = ctrlhost.Watches(
                "v1", "ConfigMap", map=lambda _: [ctrlhost.Request(secret.name) for secret in secrets.lister.list()]
            )
            plugin.add_controller("reading", lambda _ctx, _request: None, source)

    host = ctrlhost_host(Reading(), least_privilege=False)
    host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}})
    host.wait_for(lambda: maps.called)
    assert "the map of ConfigMap reads `lister` of an informer" in maps.read
