"""`ctx.ensure` on both servers: what the server rewrites is not written again, and the first owner keeps an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Invalid, NotOwned, ServerError
from tests.support.ensuring import Operator
from tests.support.operators import MINE, controlled, deployment
from tests.support.plugin_modules import config_map
from tests.support.waiting import create_eventually, eventually


@pytest.fixture
def start(control_plane, namespace: str) -> Iterator[Any]:
    started: list[Operator] = []

    def start(*wanted: dict[str, Any]) -> Operator:
        started.append(Operator(control_plane, namespace, *wanted))
        return started[-1]

    yield start
    for operator in started:
        operator.stop()


def children() -> list[dict[str, Any]]:
    """Return objects with values that the server completes, or writes in another form."""
    web = deployment(strategy=None, paused=False)
    pod = web["spec"]["template"]["spec"]
    pod |= {
        "hostNetwork": False,
        "nodeSelector": {},
        "priorityClassName": None,
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    pod["containers"][0] |= {
        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5, "memory": 1024}},
        "ports": [{"containerPort": 11211}, {"containerPort": 8080, "protocol": "TCP"}],
        "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
        "args": [],
        "env": [{"name": "A", "value": ""}],
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "cache", "labels": {}, "annotations": None},
        "spec": {"selector": {"app": "cache"}, "ports": [{"port": 80}]},
    }
    return [web, service]


def test_what_the_server_rewrites_is_applied_once(control_plane, namespace: str, start: Any) -> None:
    operator = start(*children())
    create_eventually(control_plane.client, {**config_map("cache", namespace, labels=MINE)})
    eventually(lambda: operator.runs)
    for _ in range(5):
        operator.run_again(namespace)
    assert operator.errors == []
    assert operator.requests.new() == [
        "get deployments cache",
        "apply deployments cache",
        "get services cache",
        "apply services cache",
    ]
    versions = stored_versions(control_plane, namespace)
    operator.stop()
    again = start(*children())
    eventually(lambda: again.runs)
    again.run_again(namespace)
    # Only the false that the server leaves out is not known to be equal.
    assert again.requests.new() == ["apply deployments cache"]
    assert stored_versions(control_plane, namespace) == versions


def stored_versions(control_plane: Any, namespace: str) -> list[str]:
    kinds = (("apps/v1", "Deployment"), ("v1", "Service"))
    return [control_plane.client.get(*kind, "cache", namespace)["metadata"]["resourceVersion"] for kind in kinds]


@pytest.mark.behaviour("authoring/AC12")
def test_who_is_first_keeps_the_object(control_plane, namespace: str, start: Any) -> None:
    operator = start(deployment())
    client = control_plane.client
    other = client.create(config_map("other", namespace))
    theirs = controlled(deployment(replicas=1), other)
    theirs["metadata"]["namespace"] = namespace
    created: list[dict[str, Any]] = []
    operator.requests.before["apply deployments"] = lambda: created.append(client.create(theirs))
    create_eventually(client, config_map("cache", namespace, labels=MINE))
    eventually(lambda: operator.errors)
    error = operator.errors[0]
    assert isinstance(error, NotOwned)
    assert error.message == f"Deployment {namespace}/cache is controlled by ConfigMap other"
    assert isinstance(error.__cause__, Invalid)
    live = client.get("apps/v1", "Deployment", "cache", namespace)
    assert live["metadata"]["resourceVersion"] == created[0]["metadata"]["resourceVersion"]


@pytest.mark.behaviour("authoring/AC16")
def test_an_immutable_field_is_refused_with_its_cause(control_plane, namespace: str, start: Any) -> None:
    operator = start(deployment())
    client = control_plane.client
    create_eventually(client, config_map("cache", namespace, labels=MINE))
    eventually(lambda: operator.runs)
    changed = deployment()
    changed["spec"]["selector"]["matchLabels"] = {"app": "other"}
    changed["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    operator.wanted = [changed]
    operator.run_again(namespace)
    assert isinstance(operator.errors[0], Invalid)
    refused = refusal(client, namespace)
    assert refused["note"].startswith(f"Deployment {namespace}/cache: spec.selector: ")
    assert "field is immutable" in refused["note"]


@pytest.mark.behaviour("authoring/AC16")
@pytest.mark.parametrize(
    ("spec", "what"),
    [({"replica": 2}, ".spec.replica: field not declared in schema"), ({"replicas": "two"}, ".spec.replicas: ")],
    ids=["misspelt", "another type"],
)
def test_what_the_kind_has_no_place_for_is_refused(control_plane, namespace: str, start: Any, spec, what) -> None:
    # The server answers with status 500.
    operator = start(deployment(**spec))
    create_eventually(control_plane.client, config_map("cache", namespace, labels=MINE))
    eventually(lambda: operator.errors)
    assert isinstance(operator.errors[0], ServerError)
    refused = refusal(control_plane.client, namespace)
    assert refused["note"].startswith(f"Deployment {namespace}/cache: failed to create typed patch object")
    assert what in refused["note"]


def refusal(client: ctrlhost.Client, namespace: str) -> dict[str, Any]:
    """Return the event about an object that the server refuses."""

    def event() -> dict[str, Any] | None:
        events = client.list("events.k8s.io/v1", "Event", namespace)
        return next((entry for entry in events if entry["reason"] == "ApplyFailed"), None)

    refused: dict[str, Any] = eventually(event)
    assert refused["type"] == "Warning"
    assert refused["regarding"]["name"] == "cache"
    assert refused["regarding"]["kind"] == "ConfigMap"
    return refused


@pytest.mark.behaviour("findings3/NB17")
@pytest.mark.parametrize("manager", ["kubectl-client-side-apply", "manager"])
def test_what_former_writers_set_goes_with_the_adoption(
    control_plane, namespace: str, start: Any, manager: str
) -> None:
    client = control_plane.client
    theirs = deployment(replicas=1, minReadySeconds=7)
    theirs["metadata"] |= {"namespace": namespace, "labels": {"old": "1"}}
    container = theirs["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [*container["env"], {"name": "OLD", "value": "1"}]
    client.derive(field_manager=manager).create(theirs)
    # These are of others: a label, a field that was applied, and the status.
    label = {"metadata": {"labels": {"team": "a"}}}
    client.derive(field_manager="kubectl-label").patch("apps/v1", "Deployment", "cache", namespace, label)
    applied = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cache", "namespace": namespace}}
    client.apply({**applied, "spec": {"revisionHistoryLimit": 3}}, field_manager="other", force=True)
    status = {"status": {"observedGeneration": 1, "replicas": 1}}
    patched = client.derive(field_manager="theirs").patch(
        "apps/v1", "Deployment", "cache", namespace, status, subresource="status"
    )
    operator = start(deployment())
    operator.options = {"adopt": True}
    create_eventually(client, config_map("cache", namespace, labels=MINE))
    eventually(lambda: operator.runs)
    assert operator.errors == []
    live = client.get("apps/v1", "Deployment", "cache", namespace)
    assert live["metadata"]["labels"] == {"team": "a"}
    assert "minReadySeconds" not in live["spec"]
    assert (live["spec"]["replicas"], live["spec"]["revisionHistoryLimit"]) == (2, 3)
    assert live["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert live["status"] == patched["status"]
    managers = {(entry["manager"], entry["operation"]) for entry in live["metadata"]["managedFields"]}
    assert (manager, "Update") not in managers
    assert {("ctrlhost-memcached", "Apply"), ("kubectl-label", "Update"), ("theirs", "Update")} <= managers


@pytest.mark.behaviour("findings3/NA8")
def test_an_unmanaged_field_belongs_to_others(control_plane, namespace: str, start: Any) -> None:
    client = control_plane.client
    operator = start(deployment(replicas=ctrlhost.unmanaged(2)))
    create_eventually(client, config_map("cache", namespace, labels=MINE))
    eventually(lambda: operator.runs)
    assert operator.errors == []
    live = client.get("apps/v1", "Deployment", "cache", namespace)
    assert live["spec"]["replicas"] == 2
    assert "f:replicas" not in str(live["metadata"]["managedFields"])
    # As an autoscaler does.
    scale = {"spec": {"replicas": 4}}
    client.patch("apps/v1", "Deployment", "cache", namespace, scale, subresource="scale")
    operator.wanted = [deployment(replicas=ctrlhost.unmanaged(2), minReadySeconds=3)]
    operator.run_again(namespace)
    live = client.get("apps/v1", "Deployment", "cache", namespace)
    assert (live["spec"]["replicas"], live["spec"]["minReadySeconds"]) == (4, 3)
    assert operator.errors == []
