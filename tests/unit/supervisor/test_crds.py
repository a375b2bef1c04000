"""CRDs of plugins: installed, updated, and never taken away."""

from __future__ import annotations

import copy
import logging
import threading
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost import Client
from ctrlhost.supervisor.crd_changes import INSTALLED_BY, lost_fields
from ctrlhost.supervisor.crds import Installation, check_crds, install_crds
from tests.support.objects import crd
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com")


@pytest.fixture
def client(sandbox: Sandbox) -> Client:
    return Client.load(sandbox.kubeconfig)


def widget(*fields: str, versions: tuple[str, ...] = ("v1",)) -> dict[str, Any]:
    """Return the CRD with these fields below `spec`, in each version; the first one is stored."""
    body = crd("example.com", "Widget")
    (template,) = body["spec"]["versions"]
    properties = {name: {"type": "string"} for name in fields}
    spec = {"type": "object", "properties": {**properties, "parts": {"type": "array", "items": {"type": "object"}}}}
    template["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    body["spec"]["versions"] = [
        {**copy.deepcopy(template), "name": name, "storage": name == versions[0]} for name in versions
    ]
    return body


def install(client: Client, wanted: dict[str, Any], version: str = "", *, force: bool = False) -> dict[str, Any]:
    assert install_crds(client, [wanted], threading.Event(), lambda _: None, Installation(version, force=force))
    return client.get(*CRD)


def fields(live: dict[str, Any]) -> set[str]:
    spec = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return set(spec["properties"]) - {"parts"}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return messages


@behaviour("supervision/CR10")
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("served", [False, True])
def test_a_crd_with_a_version_that_the_plugin_lacks_stays(
    client: Client, caplog: pytest.LogCaptureFixture, force: bool, served: bool
) -> None:
    both = widget("a", versions=("v1", "v2"))
    before = client.create(both)
    if not served:
        # No longer served, but objects may be stored in it.
        stored = copy.deepcopy(both)
        stored["spec"]["versions"] = [
            {**version, "served": version["name"] == "v2"} for version in both["spec"]["versions"]
        ]
        before = client.apply(stored, field_manager="other")
    after = install(client, widget("a", "b", versions=("v2",)), "9.0", force=force)
    assert after["metadata"]["resourceVersion"] >= before["metadata"]["resourceVersion"]
    assert after["spec"] == client.get(*CRD)["spec"]
    assert {version["name"] for version in after["spec"]["versions"]} == {"v1", "v2"}
    (line,) = warnings(caplog)
    assert "CRD widgets.example.com stays as it is: it has the versions v1, which that of the plugin lacks" in line


@behaviour("supervision/CR11")
def test_only_a_newer_plugin_updates_what_a_plugin_installed(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    def installed(version: str, *names: str) -> tuple[str, set[str]]:
        live = install(client, widget(*names), version)
        return live["metadata"]["annotations"][INSTALLED_BY], fields(live)

    assert installed("2.0", "a") == ("2.0", {"a"})
    assert installed("1.0", "a", "old") == ("2.0", {"a"})
    (line,) = warnings(caplog)
    assert "stays as it is: version 2.0 of the plugin installed it, and this is 1.0" in line
    assert "--install-crds=force" in line
    assert installed("2.1", "a", "b") == ("2.1", {"a", "b"})
    assert installed("2.1.dev1", "a", "b", "dev") == ("2.1", {"a", "b"})
    assert installed("2.1", "a", "b", "c") == ("2.1", {"a", "b", "c"})
    assert len(warnings(caplog)) == 1
    # An annotation that is no version says nothing.
    client.patch(*CRD[:2], CRD[2], None, {"metadata": {"annotations": {INSTALLED_BY: "soon"}}})
    assert installed("0.1", "a", "b", "c") == ("0.1", {"a", "b", "c"})


@behaviour("supervision/CR11")
def test_a_crd_without_an_annotation_is_updated_and_gets_one(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.create(widget("a"))
    live = install(client, widget("a"), "1.0")
    assert live["metadata"]["annotations"] == {INSTALLED_BY: "1.0"}
    assert warnings(caplog) == []
    # The same again changes nothing.
    assert install(client, widget("a"), "1.0")["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]


@behaviour("supervision/CR12")
def test_a_crd_with_more_fields_is_replaced_on_request_only(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    live = widget("a", "b")
    parts = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["parts"]
    parts["items"]["properties"] = {"size": {"type": "integer"}}
    client.create(live)
    assert fields(install(client, widget("a", "c"), "1.0")) == {"a", "b"}
    (line,) = warnings(caplog)
    assert "it has the fields spec.b, spec.parts[].size, which that of the plugin lacks" in line
    assert fields(install(client, widget("a", "c"), "1.0", force=True)) == {"a", "c"}
    assert warnings(caplog) == []


@behaviour("supervision/CR12")
def test_a_schema_that_keeps_all_fields_loses_none(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.create(widget("a", "b"))
    open_ = crd("example.com", "Widget")
    assert "x-kubernetes-preserve-unknown-fields" in str(install(client, open_, "1.0")["spec"])
    assert warnings(caplog) == []


STRING: dict[str, Any] = {"type": "string"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def values(schema: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema}


@behaviour("supervision/CR12")
@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        # The values of a map.
        (of(m=values(of(a=STRING, b=STRING))), of(m=values(of(a=STRING))), ["m.*.b"]),
        (of(m=values(STRING)), of(m=of(a=STRING)), ["m.*"]),
        (of(m=values(STRING)), of(m={"type": "object"}), ["m.*"]),
        (of(m=values(of(a=STRING))), of(m=values(True)), ["m.*.a"]),
        (of(m=values(STRING)), of(m=values({})), []),
        (of(m=values(STRING)), of(m=OPEN), []),
        (of(m=of(k=of(a=STRING, b=STRING))), of(m=values(of(a=STRING))), ["m.k.b"]),
        # Anything at all.
        (of(m=OPEN), of(m=of(a=STRING)), ["m.*"]),
        (OPEN, of(a=STRING), ["*"]),
        (of(m=OPEN), of(m=OPEN), []),
        (of(m=OPEN), of(), ["m"]),
        # What is open below a field does not open the field.
        (of(m=of(a=of(x=STRING, y=STRING))), of(m={**OPEN, **of(a=of(x=STRING))}), ["m.a.y"]),
        (of(m=of(a=STRING)), {**OPEN, **of(m=of(a=STRING))}, []),
        ({"type": "array", "items": of(a=STRING)}, {"type": "array", "items": OPEN}, []),
        # Fields of every resource, which the server keeps.
        (of(apiVersion=STRING, kind=STRING, metadata={"type": "object"}, spec=of()), of(spec=of()), []),
        (of(m=of(metadata=of())), of(m=of()), ["m.metadata"]),
        (of(m=of(metadata=of(), a=STRING)), of(m={**of(), "x-kubernetes-embedded-resource": True}), ["m.a"]),
        # Left empty by hand.
        (of(a=None, m=values(None)), of(a=None, m=values({})), []),
        (of(a={"type": "array", "items": None}), of(a=None), []),
        (None, None, []),
        (of(a=STRING), None, ["a"]),
    ],
)
def test_what_the_server_would_drop_is_lost(before: Any, after: Any, lost: list[str]) -> None:
    def with_schema(schema: Any) -> dict[str, Any]:
        return {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}

    assert sorted(lost_fields(with_schema(before), with_schema(after))) == lost


@behaviour("supervision/CR13")
def test_two_versions_that_start_at_once_end_with_the_newer_one(client: Client) -> None:
    for _ in range(20):
        replicas = [
            Background(install, client, widget("a"), "1.9"),
            Background(install, client, widget("a", "b"), "1.10"),
        ]
        for replica in replicas:
            replica.result()
        live = client.get(*CRD)
        assert (live["metadata"]["annotations"][INSTALLED_BY], fields(live)) == ("1.10", {"a", "b"})
        client.delete(*CRD)


@behaviour("bitcoin/B19")
def test_fields_that_the_servers_crd_drops_are_named(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    check_crds("demo", client, [widget("a")])
    client.create(widget("a"))
    check_crds("demo", client, [widget("a")])
    assert caplog.records == []
    check_crds("demo", client, [widget("a", "b", "c")])
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage() == (
        "the CRD is older than the plugin: widgets.example.com lacks spec.b, spec.c, which the server drops; apply the "
        "output of `ctrlhost crds --plugins demo`"
    )


def test_a_crd_whose_names_are_taken_waits_for_that_reason(client: Client) -> None:
    old, renamed = crd("example.com", "Evc"), crd("example.com", "Evcx")
    for body in (old, renamed):
        body["spec"]["names"]["shortNames"] = ["evc"]
    client.create(old)
    reasons, stop = [], threading.Event()

    def waiting(reason: str) -> None:
        reasons.append(reason)
        stop.set()

    assert not install_crds(client, [renamed], stop, waiting, Installation())
    assert reasons == ['evcxs.example.com is not established yet: "evc" is already in use']
