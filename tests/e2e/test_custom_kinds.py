"""Informers of custom kinds: they start when their CRD appears, and empty their cache when it is removed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost.informers import BackoffOptions, InformerFactory, ReflectorOptions
from ctrlhost.request import Request
from ctrlhost.workqueue import WorkQueue
from tests.support.objects import crd
from tests.support.waiting import create_eventually, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost.client import Client
    from ctrlhost.informers import Informer

#: Waiting informers retry after ten minutes at the earliest, unless an event wakes them.
SELDOM = ReflectorOptions(backoff=BackoffOptions(base=600, cap=600), waiting_cap=600)
_numbers = itertools.count(1)


@pytest.fixture
def factory(client: Client) -> Iterator[InformerFactory]:
    informers = InformerFactory(client, options=SELDOM)
    yield informers
    informers.stop()


@pytest.fixture
def group() -> str:
    return f"g{next(_numbers)}.kinds.test"


def gear(group: str, namespace: str, name: str) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Gear", "metadata": {"name": name, "namespace": namespace}}


def held(informer: Informer) -> list[str]:
    return sorted(obj.name for obj in informer.lister.list())


def test_an_informer_starts_when_its_kind_appears_and_empties_its_cache_when_it_is_removed(
    client: Client, factory: InformerFactory, group: str, namespace: str
) -> None:
    informer = factory.informer(f"{group}/v1", "Gear")
    queue = WorkQueue()
    informer.enqueue_to(queue)
    deleted: list[str] = []
    informer.add_handler(on_delete=lambda obj: deleted.append(obj.key))
    factory.start()
    eventually(lambda: informer.state == "waiting")
    # Wait for the shared watch of CRDs before creating one; other tests' CRDs do not matter.
    eventually(
        lambda: any(entry.kind == "CustomResourceDefinition" and entry.has_synced for entry in factory.informers())
    )
    for round_ in ("first", "second"):
        client.create(crd(group, "Gear"))
        eventually(lambda: informer.state == "watching", 30)
        assert informer.has_synced
        create_eventually(client, gear(group, namespace, round_))
        eventually(lambda round_=round_: held(informer) == [round_])
        assert queue.get(10) == Request(round_, namespace)
        queue.done(Request(round_, namespace))
        client.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"gears.{group}")
        eventually(lambda: informer.state == "waiting", 30)
        eventually(lambda: held(informer) == [])
        eventually(lambda round_=round_: deleted[-1:] == [f"{namespace}/{round_}"])
        assert "does not serve kind Gear" in informer.reason or "is not served; did you mean" in informer.reason
        assert queue.get(10) == Request(round_, namespace)
        queue.done(Request(round_, namespace))
    informer.release()
    assert factory.informers() == []


def test_an_informer_follows_a_kind_that_becomes_cluster_scoped(
    client: Client, factory: InformerFactory, group: str, namespace: str
) -> None:
    informer = factory.informer(f"{group}/v1", "Gear", namespaces=[namespace, "default"])
    factory.start()
    eventually(lambda: informer.state == "waiting")
    eventually(
        lambda: any(entry.kind == "CustomResourceDefinition" and entry.has_synced for entry in factory.informers())
    )
    client.create(crd(group, "Gear", "Cluster"))
    create_eventually(client, {"apiVersion": f"{group}/v1", "kind": "Gear", "metadata": {"name": "wide"}})
    eventually(lambda: held(informer) == ["wide"], 30)
    eventually(lambda: len(informer.parts) == 1 and informer.state == "watching")
    assert informer.covers("")
