"""The sample controller on a sandbox of its own."""

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
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"deploymentName": deployment, "replicas": replicas},
    }


@pytest.fixture
def host(ctrlhost_host: Any, manual_clock: Any) -> Any:
    """Return a host with only the sample."""
    return ctrlhost_host(ctrlhost_sample, clock=manual_clock)


def deployment(host: Any, name: str = "example-web") -> dict[str, Any]:
    found: dict[str, Any] = host.client.get("apps/v1", "Deployment", name, "default")
    return found


def events(host: Any) -> list[tuple[str, str, str]]:
    return [
        (one["type"], one["reason"], one["note"]) for one in host.client.list("events.k8s.io/v1", "Event", "default")
    ]


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
    host.client.patch(API_VERSION, "Foo", "example", "default", {"spec": {"replicas": 3}})
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
    host.client.patch("apps/v1", "Deployment", "example-web", "default", {"spec": drift})
    host.run_until_idle()
    assert agrees(deployment(host)["spec"], deployment_for(foo(replicas=2))["spec"])
    assert ("Normal", "Repaired", "set Deployment example-web back to the Foo's spec") in events(host)


def test_a_deleted_deployment_is_made_again(host: Any) -> None:
    host.client.create(foo())
    host.run_until_idle()
    first = deployment(host)["metadata"]["uid"]
    host.client.delete("apps/v1", "Deployment", "example-web", "default")
    host.run_until_idle()
    assert deployment(host)["metadata"]["uid"] != first


def test_the_status_tells_the_available_replicas(host: Any) -> None:
    host.client.create(foo(replicas=2))
    host.run_until_idle()
    status = {"availableReplicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "replicas": 2}
    host.client.patch("apps/v1", "Deployment", "example-web", "default", {"status": status}, subresource="status")
    host.wait_for(
        lambda: host.client.get(API_VERSION, "Foo", "example", "default")["status"] == {"availableReplicas": 2}
    )


def test_a_deployment_of_somebody_else_is_not_touched(host: Any, manual_clock: Any) -> None:
    theirs = deployment_for(foo(name="somebody", replicas=5))
    before = host.client.create(theirs)
    host.client.create(foo(replicas=2))
    host.run_until_idle()
    after = deployment(host)
    assert after["spec"] == before["spec"]
    assert "ownerReferences" not in after["metadata"]
    warning = "Deployment example-web exists already and has another owner"
    assert ("Warning", "ErrResourceExists", warning) in events(host)

    host.client.delete("apps/v1", "Deployment", "example-web", "default")
    host.run_until_idle()
    manual_clock.advance(30)
    host.run_until_idle()
    assert deployment(host)["spec"]["replicas"] == 2


def test_a_foo_that_goes_leaves_the_rest_to_the_garbage_collector(host: Any) -> None:
    host.client.create(foo())
    host.run_until_idle()
    host.client.delete(API_VERSION, "Foo", "example", "default")
    host.run_until_idle()
    with pytest.raises(NotFound):
        host.client.get(API_VERSION, "Foo", "example", "default")


def test_what_the_server_adds_is_no_difference() -> None:
    wanted = deployment_for(foo())
    served = {**wanted["spec"], "progressDeadlineSeconds": 600}
    assert agrees(served, wanted["spec"])
    assert not agrees({**served, "replicas": 1}, wanted["spec"])
    assert not agrees({}, wanted["spec"])
    assert not agrees(None, wanted["spec"])


def test_the_crd_names_its_group() -> None:
    names = crd()["spec"]["names"]
    assert crd()["metadata"]["name"] == f"{names['plural']}.{crd()['spec']['group']}"
