"""Informers of namespaces selected by glob or label, which appear, change and disappear."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost.errors import CtrlhostError
from ctrlhost.informers import InformerFactory
from ctrlhost.workqueue import WorkQueue
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from ctrlhost.client import Client
    from ctrlhost.informers import Informer
    from tests.support.control_plane import ControlPlane

_numbers = itertools.count(1)


@pytest.fixture
def prefix() -> str:
    """Return the prefix of the namespaces of this test."""
    return f"ns{next(_numbers)}"


def make_namespace(client: Client, name: str, **labels: str) -> str:
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    return name


def label(client: Client, name: str, **labels: str | None) -> None:
    client.patch("v1", "Namespace", name, None, {"metadata": {"labels": labels}})


def config_map(client: Client, namespace: str, name: str = "x") -> None:
    metadata = {"name": name, "namespace": namespace, "labels": {"followed": "1"}}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": namespace}})


def end_namespace(control_plane: ControlPlane, name: str) -> None:
    """Delete a namespace and its contents, since no namespace controller runs."""
    client = control_plane.client
    client.delete("v1", "Namespace", name)
    if control_plane.kind == "kube-apiserver":
        client.delete_collection("v1", "ConfigMap", name)
        client.replace({**client.get("v1", "Namespace", name), "spec": {"finalizers": []}}, subresource="finalize")


def held(informer: Informer) -> list[str]:
    """Return the cached objects, without those that a sandbox creates in each namespace."""
    return sorted(obj.key for obj in informer.lister.list() if obj.name != "kube-root-ca.crt")


def by_data(obj: Any) -> list[str]:
    return [obj["data"]["a"]]


def test_a_namespace_that_gets_the_label_is_added_and_one_that_loses_it_is_dropped_with_its_objects(
    client: Client, factory: InformerFactory, prefix: str
) -> None:
    here, later = make_namespace(client, f"{prefix}-a", mark=prefix), make_namespace(client, f"{prefix}-b")
    config_map(client, here)
    config_map(client, later)
    informer = factory.informer("v1", "ConfigMap", namespaces=[f"label:mark={prefix}"], label_selector="followed=1")
    events: list[tuple[str, str]] = []
    handle = informer.add_handler(
        on_add=lambda obj, _: events.append(("add", obj.key)), on_delete=lambda obj: events.append(("delete", obj.key))
    )
    queue = WorkQueue()
    informer.enqueue_to(queue)
    informer.indexer.add_indexers({"data": by_data})
    factory.start()
    assert factory.wait_for_sync(30)
    eventually(lambda: handle.has_synced)
    assert held(informer) == [f"{here}/x"]
    assert informer.status().namespaces == (here,)
    assert queue.get(10).namespace == here

    label(client, later, mark=prefix)
    eventually(lambda: held(informer) == [f"{here}/x", f"{later}/x"])
    assert queue.get(10).namespace == later
    # An index added before the namespace appeared also finds its objects.
    assert [obj.key for obj in informer.indexer.by_index("data", later)] == [f"{later}/x"]

    label(client, here, mark=None)
    eventually(lambda: held(informer) == [f"{later}/x"])
    eventually(lambda: events == [("add", f"{here}/x"), ("add", f"{later}/x"), ("delete", f"{here}/x")])
    # The keys of the dropped namespace are reconciled like deleted ones.
    queue.done_many([entry.key for entry in queue.snapshot().processing])
    assert queue.get(10).namespace == here
    assert informer.covers(later)
    assert not informer.covers(here)

    # The informer catches up once the namespace is labelled again.
    config_map(client, here, "y")
    label(client, here, mark=prefix)
    eventually(lambda: held(informer) == [f"{here}/x", f"{here}/y", f"{later}/x"])
    assert informer.has_synced
    assert informer.status().namespaces == (here, later)


def test_a_namespace_is_followed_by_name_from_creation_to_deletion(
    control_plane: ControlPlane, client: Client, factory: InformerFactory, prefix: str
) -> None:
    informer = factory.informer("v1", "ConfigMap", namespaces=[f"{prefix}-*"], label_selector="followed=1")
    queue = WorkQueue()
    informer.enqueue_to(queue)
    factory.start()
    assert factory.wait_for_sync(30)
    assert informer.has_synced
    assert held(informer) == []
    assert informer.state == "watching"
    for number in range(3):
        config_map(client, make_namespace(client, f"{prefix}-{number}"))
    config_map(client, make_namespace(client, f"other-{prefix}"))
    eventually(lambda: held(informer) == [f"{prefix}-{number}/x" for number in range(3)])
    end_namespace(control_plane, f"{prefix}-1")
    eventually(lambda: held(informer) == [f"{prefix}-0/x", f"{prefix}-2/x"])
    eventually(lambda: informer.status().namespaces == (f"{prefix}-0", f"{prefix}-2"))
    requests = [queue.get(10) for _ in range(len(queue))]
    assert {request.namespace for request in requests} == {f"{prefix}-{number}" for number in range(3)}


def test_informers_with_equal_namespace_selectors_share_one_watch_per_namespace(
    client: Client, factory: InformerFactory, prefix: str
) -> None:
    choice = [f"{prefix}-*"]
    informer = factory.informer("v1", "ConfigMap", namespaces=choice)
    assert factory.informer("v1", "ConfigMap", namespaces=choice) is informer
    view = factory.informer("v1", "ConfigMap", namespaces=choice, label_selector="followed=1")
    fixed = factory.informer("v1", "ConfigMap", namespaces=[f"{prefix}-a"])
    factory.start()
    assert factory.wait_for_sync(30)
    config_map(client, make_namespace(client, f"{prefix}-a"))
    config_map(client, make_namespace(client, f"{prefix}-b"))
    eventually(lambda: held(view) == [f"{prefix}-a/x", f"{prefix}-b/x"] and held(fixed) == [f"{prefix}-a/x"])
    assert [len(handle.parts) for handle in (informer, view, fixed)] == [2, 2, 2]
    assert view.parts == informer.parts == fixed.parts
    for handle in (informer, informer, view, fixed):
        handle.release()
    assert factory.informers() == []
    with pytest.raises(CtrlhostError, match="stopped"):
        informer.add_handler()
