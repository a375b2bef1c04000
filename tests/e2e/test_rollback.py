"""A server whose etcd is restored from a snapshot: the only case in which a cache must go back in time."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from ctrlhost.informers import BackoffOptions, Informer, InformerFactory, ReflectorOptions
from tests.support.control_plane import KubeApiserver
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually


def served(server: KubeApiserver) -> dict[str, str]:
    maps = server.client.list("v1", "ConfigMap", "default")
    return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in maps}


def agree(maps: Informer, known: dict[str, str], server: KubeApiserver) -> None:
    def differences() -> dict[str, Any]:
        cached = {obj.name: obj.resource_version for obj in maps.lister.list()}
        now = served(server)
        every = cached.keys() | known.keys() | now.keys()
        rows = {name: (cached.get(name), known.get(name), now.get(name)) for name in every}
        return {name: row for name, row in rows.items() if len(set(row)) > 1}

    try:
        eventually(lambda: not differences(), 30, pause=0.05)
    except AssertionError:
        pytest.fail(f"cache, handler and server differ: {differences()}; {maps.status()}")


def test_an_informer_follows_a_server_that_was_rolled_back_to_a_snapshot(own_kube_apiserver: KubeApiserver) -> None:
    client, etcd = own_kube_apiserver.client, own_kube_apiserver.directory / "etcd"
    options = ReflectorOptions(backoff=BackoffOptions(base=0.01, cap=0.2), idle_timeout=2.0)
    known: dict[str, str] = {}
    with InformerFactory(client, options=options) as factory:
        maps = factory.informer("v1", "ConfigMap", namespaces=["default"])
        maps.add_handler(
            lambda obj, _: known.__setitem__(obj.name, obj.resource_version),
            lambda _, new: known.__setitem__(new.name, new.resource_version),
            lambda obj: known.pop(obj.key.partition("/")[2]),
        )
        factory.start()
        assert factory.wait_for_sync(60)
        client.create(config_map("changed", n="1"))
        client.create(config_map("deleted"))
        own_kube_apiserver.kill()
        shutil.copytree(etcd, etcd.with_name("snapshot"))
        own_kube_apiserver.start()
        client.patch("v1", "ConfigMap", "changed", "default", {"data": {"n": "2"}})
        client.delete("v1", "ConfigMap", "deleted", "default")
        for number in range(50):
            client.create(config_map(f"later-{number}"))
        agree(maps, known, own_kube_apiserver)
        assert "deleted" not in known

        own_kube_apiserver.kill()
        shutil.rmtree(etcd)
        etcd.with_name("snapshot").rename(etcd)
        own_kube_apiserver.start()
        now = served(own_kube_apiserver)
        assert "deleted" in now
        assert not any(name.startswith("later") for name in now)
        agree(maps, known, own_kube_apiserver)
        # The server then assigns versions a second time.
        client.create(config_map("afterwards"))
        agree(maps, known, own_kube_apiserver)
        assert "afterwards" in known
