"""A host in this process with 50 controllers on 20 informers, whose caches and queues a bench fills directly."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.cache import Indexer
from ctrlhost.testing.host import HostUnderTest

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROLLERS, INFORMERS = 50, 20


class Bench:
    @ctrlhost.hookimpl
    def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
        for number in range(CONTROLLERS):
            source = ctrlhost.For("v1", "ConfigMap", label_selector=f"group={number % INFORMERS}")
            plugin.add_controller(f"c{number}", _reconcile, source)


def _reconcile(_context: ctrlhost.Context, _request: ctrlhost.Request) -> None:
    pass


@contextmanager
def many_controllers(**settings: Any) -> Iterator[HostUnderTest]:
    """Run the host; its controllers are paused, so that they do not empty their queues."""
    paused = {f"bench/c{number}": {"paused": True} for number in range(CONTROLLERS)}
    with Sandbox() as sandbox:
        host = HostUnderTest(sandbox, (Bench(),), controllers=paused, **settings).start()
        try:
            host.run_until_idle()
            yield host
        finally:
            host.stop()


def fill(host: HostUnderTest, objects: int, keys: int) -> None:
    """Put so many objects into the caches, and keys into the queues, without the server."""
    assert host.host.factory is not None
    informers = list(host.host.factory.informers())
    assert len(informers) == INFORMERS
    share = objects // INFORMERS
    for number, informer in enumerate(informers):
        assert isinstance(informer.indexer, Indexer)
        informer.indexer.replace(_config_map(f"o{number}-{at}") for at in range(share))
    assert sum(len(entry.indexer) for entry in informers) == share * INFORMERS
    for controller in host.controllers.values():
        controller.queue.add_many([ctrlhost.Request(f"k{at}", "default") for at in range(keys // CONTROLLERS)])


def _config_map(name: str) -> bytes:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": name}}).encode()
