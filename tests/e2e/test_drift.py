"""What somebody changes of an owned object by hand is repaired, on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ctrlhost
from tests.support.ensuring import Operator
from tests.support.objects import crd
from tests.support.operators import MINE, deployment
from tests.support.plugin_modules import config_map
from tests.support.waiting import create_eventually, eventually

RBAC = "rbac.authorization.k8s.io"
#: A kind with lists that are replaced as a whole, as HTTPRoute has them, and with texts.
ROUTES = crd(
    "drift.example.com",
    "Route",
    schema={
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "version": {"type": "string"},
                    "allowed": {"type": "array", "items": {"type": "string"}},
                    "parentRefs": {
                        "type": "array",
                        "x-kubernetes-list-type": "atomic",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "kind": {"type": "string", "default": "Gateway"},
                                "port": {"type": "integer"},
                            },
                        },
                    },
                },
            }
        },
    },
)


def template(**pod: Any) -> dict[str, Any]:
    """Return a Deployment whose pods have texts that look like quantities."""
    wanted = deployment()
    container = wanted["spec"]["template"]["spec"]["containers"][0]
    container |= {
        "args": ["1000"],
        "env": [{"name": "VERSION", "value": "1.10"}, {"name": "EMPTY", "value": ""}],
        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
        "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}],
    }
    metadata = wanted["spec"]["template"]["metadata"]
    metadata["labels"] = {**metadata["labels"], "version": "1.10"}
    metadata["annotations"] = {"size": "1000"}
    inits = [{"name": name, "image": name} for name in ("first", "second")]
    wanted["spec"]["template"]["spec"] |= {
        "nodeSelector": {"example.com/node": ""},
        "initContainers": inits,
        **pod,
    }
    return wanted


OWNED: dict[str, dict[str, Any]] = {
    "deployment": template(),
    "cronjob": {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "cache"},
        "spec": {
            "schedule": "10 * * * *",
            "jobTemplate": {
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}
            },
        },
    },
    "binding": {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "cache"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "cache"},
        "subjects": [{"kind": "User", "name": name} for name in ("ann", "bob")],
    },
    "policy": {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "cache"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "cache"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}],
        },
    },
    "service": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "cache"},
        "spec": {"selector": {"app": "cache"}, "ports": [{"port": 80}]},
    },
    "route": {
        "apiVersion": "drift.example.com/v1",
        "kind": "Route",
        "metadata": {"name": "cache"},
        "spec": {"version": "1.10", "allowed": [], "parentRefs": [{"name": "a"}, {"name": "b"}]},
    },
}
_CONTAINER = "/spec/template/spec/containers/0"
_SUBJECT = {"kind": "User", "apiGroup": RBAC, "name": "eve"}
_REFERENCE = {"name": "c", "kind": "Gateway"}

#: What is edited, by JSON patch.
LISTS = [
    ("binding", ("add", "/subjects/-", _SUBJECT)),
    ("binding", ("remove", "/subjects/0", None)),
    ("binding", ("move", "/subjects/1", "/subjects/0")),
    ("route", ("add", "/spec/parentRefs/-", _REFERENCE)),
    ("route", ("remove", "/spec/parentRefs/0", None)),
    ("route", ("move", "/spec/parentRefs/1", "/spec/parentRefs/0")),
    ("route", ("add", "/spec/parentRefs/0/port", 80)),
    ("route", ("remove", "/spec/allowed", None)),
    ("policy", ("add", "/spec/ingress/0/from/0/namespaceSelector", {})),
    ("policy", ("add", "/spec/ingress/-", {})),
    ("policy", ("add", "/spec/podSelector/matchLabels/a", "b")),
    ("service", ("add", "/spec/selector/a", "b")),
    ("deployment", ("add", f"{_CONTAINER}/args/-", "more")),
    (
        "deployment",
        ("move", "/spec/template/spec/initContainers/1", "/spec/template/spec/initContainers/0"),
    ),
    ("deployment", ("remove", f"{_CONTAINER}/ports/0", None)),
]
TEXTS = [
    ("route", ("replace", "/spec/version", "1.1")),
    ("deployment", ("replace", f"{_CONTAINER}/env/0/value", "1.1")),
    ("deployment", ("replace", f"{_CONTAINER}/args/0", "1k")),
    ("deployment", ("replace", "/spec/template/metadata/labels/version", "1.1")),
    ("deployment", ("replace", "/spec/template/metadata/annotations/size", "1k")),
    ("deployment", ("remove", "/spec/template/spec/nodeSelector/example.com~1node", None)),
    ("cronjob", ("replace", "/spec/schedule", "1 * * * *")),
]


@pytest.fixture
def owned(control_plane, namespace: str) -> Iterator[Operator]:
    client = control_plane.client
    client.apply(ROUTES, field_manager="tests", force=True)
    create_eventually(client, {"apiVersion": "drift.example.com/v1", "kind": "Route", **named("served", namespace)})
    operator = Operator(control_plane, namespace, *OWNED.values())
    create_eventually(client, config_map("cache", namespace, labels=MINE))
    eventually(lambda: operator.runs)
    assert operator.errors == []
    yield operator
    operator.stop()


def named(name: str, namespace: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}}


def content(obj: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def edit(client: ctrlhost.Client, namespace: str, name: str, edits: tuple[str, str, Any]) -> None:
    """Edit an owned object, and wait until it is as before."""
    operation, path, value = edits
    kind = (OWNED[name]["apiVersion"], OWNED[name]["kind"], "cache", namespace)
    before = content(client.get(*kind))
    step = {"from": path, "path": value} if operation == "move" else {"path": path, "value": value}
    edited = content(client.patch(*kind, [{"op": operation, **step}], type="json"))
    assert edited != before
    eventually(lambda: content(client.get(*kind)) == before, 15, what=f"{edits} is repaired")


@pytest.mark.behaviour("findings3/NB2")
def test_edits_of_lists_do_not_stay(control_plane, namespace: str, owned: Operator) -> None:
    """All of them with one host, whose start takes seconds."""
    for name, edits in LISTS:
        edit(control_plane.client, namespace, name, edits)
    repaired = [event["note"] for event in control_plane.client.list("events.k8s.io/v1", "Event", namespace)]
    assert f"repaired RoleBinding {namespace}/cache: subjects" in repaired
    owned.requests.new()
    owned.run_again(namespace)
    assert owned.requests.new() == []


@pytest.mark.behaviour("findings3/NB3")
def test_edits_of_texts_that_look_like_quantities_do_not_stay(control_plane, namespace: str, owned: Operator) -> None:
    for name, edits in TEXTS:
        edit(control_plane.client, namespace, name, edits)


@pytest.mark.behaviour("findings3/NB3")
def test_a_quantity_in_another_form_is_no_change(control_plane, namespace: str, owned: Operator) -> None:
    client = control_plane.client
    stored = client.get("apps/v1", "Deployment", "cache", namespace)
    limits = stored["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["cpu"] == "1"
    owned.stop()
    again = Operator(control_plane, namespace, OWNED["deployment"])
    eventually(lambda: again.runs)
    assert again.requests.new() == []
    again.stop()
