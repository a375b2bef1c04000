"""The sample controller in the namespace of a test."""

from __future__ import annotations

from typing import Any

import ctrlhost_sample
import pytest
from ctrlhost_sample.foo import API_VERSION, agrees, crd, deployment_for

from ctrlhost import NotFound


def foo(name: str = "example", replicas: int = 2, deployment: str = "example-web") -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Foo",
        "metadata": {"name": name},
        "spec": {"deploymentName": deployment, "replicas": replicas},
    }


@pytest.fixture
def host(ctrlhost_host: Any, manual_clock: Any) -> Any:
    """Return a host with only the sample."""
    return ctrlhost_host(ctrlhost_sample, clock=manual_clock)


def deployment(host: Any, name: str = "example-web") -> dict[str, Any]:
    obj: dict[str, Any] = host.client.get("apps/v1", "Deployment", name)
    return obj


def events(host: Any) -> list[tuple[str, str, str]]:
    return [(event["type"], event["reason"], event["note"]) for event in host.events()]


def wanted(namespace: str = "default", **more: Any) -> dict[str, Any]:
    """Return the Deployment of a Foo in a namespace."""
    parent = foo(**more)
    return deployment_for({**parent, "metadata": {**parent["metadata"], "namespace": namespace}})


def test_a_foo_gets_its_deployment(host: Any) -> None:
    host.client.create(foo(replicas=2))
    host.run_until_idle()

    created = deployment(host)
    assert created["spec"]["replicas"] == 2
    assert created["metadata"]["ownerReferences"][0]["name"] == "example"
    assert ("Normal", "Created", "created Deployment example-web") in events(host)


def test_another_number_of_replicas_in_the_foo_reaches_the_deployment(host: Any) -> None:
    host.client.create(foo(replicas=2))
    host.run_until_idle()
    host.client.patch(API_VERSION, "Foo", "example", None, {"spec": {"replicas": 3}})
    host.run_until_idle()
    assert deployment(host)["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    "drift",
    [
        {"replicas": 7},
        {"template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:old"}]}}},
    ],
)
def test_a_deployment_that_somebody_changed_is_set_back(host: Any, drift: dict[str, Any]) -> None:
    host.client.create(foo(replicas=2))
    host.run_until_idle()
    host.client.patch("apps/v1", "Deployment", "example-web", None, {"spec": drift})
    host.run_until_idle()
    assert agrees(deployment(host)["spec"], wanted(replicas=2)["spec"])
    assert ("Normal", "Repaired", "set Deployment example-web back to the Foo's spec") in events(host)


def test_a_deleted_deployment_is_made_again(host: Any) -> None:
    host.client.create(foo())
    host.run_until_idle()
    first = deployment(host)["metadata"]["uid"]
    host.client.delete("apps/v1", "Deployment", "example-web")
    host.run_until_idle()
    assert deployment(host)["metadata"]["uid"] != first


def test_the_status_tells_the_available_replicas(host: Any) -> None:
    host.client.create(foo(replicas=2))
    host.run_until_idle()
    status = {"availableReplicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "replicas": 2}
    host.client.patch("apps/v1", "Deployment", "example-web", None, {"status": status}, subresource="status")
    host.run_until_idle()
    assert host.client.get(API_VERSION, "Foo", "example")["status"] == {"availableReplicas": 2}


def test_a_deployment_of_somebody_else_is_not_touched(host: Any, manual_clock: Any) -> None:
    before = host.client.create(wanted(host.namespace, name="somebody", replicas=5))
    host.client.create(foo(replicas=2))
    host.run_until_idle()
    after = deployment(host)
    assert after["spec"] == before["spec"]
    assert "ownerReferences" not in after["metadata"]
    warning = "Deployment example-web exists already and has another owner"
    assert ("Warning", "ErrResourceExists", warning) in events(host)

    host.client.delete("apps/v1", "Deployment", "example-web")
    host.run_until_idle()
    manual_clock.advance(30)
    host.run_until_idle()
    assert deployment(host)["spec"]["replicas"] == 2


def test_a_foo_that_goes_leaves_the_rest_to_the_garbage_collector(host: Any) -> None:
    host.client.create(foo())
    host.run_until_idle()
    host.client.delete(API_VERSION, "Foo", "example")
    host.run_until_idle()
    with pytest.raises(NotFound):
        host.client.get(API_VERSION, "Foo", "example")


def test_what_the_server_adds_is_no_difference() -> None:
    spec = wanted()["spec"]
    served = {**spec, "progressDeadlineSeconds": 600}
    assert agrees(served, spec)
    assert not agrees({**served, "replicas": 1}, spec)
    assert not agrees({}, spec)
    assert not agrees(None, spec)


def test_the_crd_names_its_group() -> None:
    names = crd()["spec"]["names"]
    assert crd()["metadata"]["name"] == f"{names['plural']}.{crd()['spec']['group']}"
