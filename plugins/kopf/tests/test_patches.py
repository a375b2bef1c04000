"""What handlers write: patches, results, owned objects, events."""

from __future__ import annotations

import logging
from typing import Any

import ctrlhost_kopf as kopf
import pytest

from plugins.kopf.tests.conftest import Running
from plugins.kopf.tests.examples import crd

behaviour = pytest.mark.behaviour


@behaviour("kopf/KO8")
@pytest.mark.parametrize("status", [False, True], ids=["no subresource", "status subresource"])
def test_patch_result_and_adopt_are_one_write_and_no_loop(on: Any, start: Any, status: bool) -> None:
    calls: list[str] = []

    @on.create(id="fn")
    def fn(name: str, patch: kopf.Patch, body: kopf.Body, **_: Any) -> Any:
        child = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
        kopf.adopt(child, strict=True)
        running.client.create(child)
        patch.spec["given"] = name
        patch.metadata.labels["owned"] = "yes"
        patch.meta.annotations["note"] = "1"
        patch.status["seen"] = True
        calls.append(name)
        return {"message": "done"}

    on.update()(lambda **_: calls.append("update"))
    running = start(crd(status=status))
    running.create(labels={"a": "b"}, drop=1)
    obj = running.get()
    assert obj["spec"] == {"given": "ex", "drop": 1}
    assert obj["metadata"]["labels"] == {"a": "b", "owned": "yes"}
    assert obj["metadata"]["annotations"]["note"] == "1"
    assert obj["status"] == {"seen": True, "fn": {"message": "done"}}
    # The status is a resource of its own, where it is a subresource. The handler's own change is an update, as in kopf.
    first = ["patch", "patch status"] if status else ["patch"]
    assert running.writes()[: len(first)] == first
    assert calls == ["ex", "update"]
    assert len(running.writes()) == len(first) + 1
    child = running.client.get("v1", "ConfigMap", "ex", "default")["metadata"]
    assert child["labels"] == {"a": "b"}
    assert [(owner["kind"], owner["uid"], owner["controller"]) for owner in child["ownerReferences"]] == [
        ("KopfExample", obj["metadata"]["uid"], True)
    ]


@behaviour("kopf/KO8")
def test_functions_of_a_patch_see_the_newest_state(on: Any, start: Any) -> None:
    def add(body: dict[str, Any]) -> None:
        body.setdefault("spec", {}).setdefault("items", []).append("mine")
        body.setdefault("status", {})["items"] = len(body["spec"]["items"])

    @on.create()
    def fn(patch: kopf.Patch, name: str, **_: Any) -> None:
        patch.fns.append(add)
        if name == "raced":
            # Another writer is faster.
            running.client.patch("kopf.dev/v1", "KopfExample", name, "default", {"spec": {"items": ["theirs"]}})

    running: Running = start()
    running.create("alone")
    assert running.get("alone")["spec"]["items"] == ["mine"]
    assert running.get("alone")["status"]["items"] == 1
    running.create("raced")
    assert running.get("raced")["spec"]["items"] == ["theirs", "mine"]


@behaviour("kopf/KO8")
def test_a_patch_is_a_mapping_with_functions() -> None:
    patch = kopf.Patch({"spec": {"a": 1}}, body={"spec": {"a": 0, "b": 2}, "x/y": 1})
    patch["x/y"] = None
    patch.fns.append(lambda body: body["spec"].update(c=3))
    assert patch.as_json_patch() == [
        {"op": "replace", "path": "/spec/a", "value": 1},
        {"op": "add", "path": "/spec/c", "value": 3},
        {"op": "remove", "path": "/x~1y"},
    ]
    assert "fns" in repr(patch)
    patch.clear()
    assert not patch
    assert repr(patch) == "Patch()"
    assert patch.as_json_patch() == []
    with pytest.raises(ValueError, match="needs the object"):
        kopf.Patch({"a": 1}).as_json_patch()


@behaviour("kopf/KO8")
def test_events_of_handlers_are_posted(on: Any, start: Any, caplog: pytest.LogCaptureFixture) -> None:
    @on.startup()
    def configure(settings: Any, **_: Any) -> None:
        settings.posting.loggers = True
        settings.posting.level = logging.WARNING

    @on.create()
    def fn(body: kopf.Body, logger: kopf.Logger, **_: Any) -> None:
        kopf.event(body, type="Normal", reason="Any", message="any")
        kopf.info(body, reason="Below", message="the level")
        kopf.warn([body], reason="Warned", message="careful")
        try:
            raise ValueError("odd")
        except ValueError:
            kopf.exception(body, message="failed:")
        logger.info("not posted")
        logger.warning("a line")

    running = start()
    uid = running.create()["metadata"]["uid"]
    events = [
        (event["type"], event["reason"], event["note"])
        for event in running.host.events()
        if event["regarding"]["uid"] == uid
    ]
    assert sorted(events) == [
        ("Normal", "Any", "any"),
        ("Warning", "Logging", "a line"),
        ("Warning", "ValueError", "failed: odd"),
        ("Warning", "Warned", "careful"),
    ]
    (line,) = [record for record in caplog.records if record.message == "a line"]
    assert line.__dict__["k8s_ref"]["uid"] == uid
    assert not any(hasattr(record, "settings") for record in caplog.records)


@behaviour("kopf/KO8")
def test_objects_of_the_official_client_are_adopted() -> None:
    from kubernetes import client

    owner = kopf.Body({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "uid": "1"}})
    owner = kopf.Body({**owner, "metadata": {**owner["metadata"], "namespace": "ns", "labels": {"a": "b"}}})
    template = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=[]))
    spec = client.V1DeploymentSpec(selector=client.V1LabelSelector(), template=template)
    deployment = client.V1Deployment(spec=spec)
    plain: dict[str, Any] = {"spec": {"template": {}}}
    for obj in (deployment, plain):
        kopf.adopt([obj], owner=owner, nested="spec.template")
        kopf.append_owner_reference(obj, owner)
    metadata = deployment.metadata
    assert (metadata.generate_name, metadata.namespace, metadata.labels) == ("owner-", "ns", {"a": "b"})
    assert [(r.uid, r.controller, r.block_owner_deletion) for r in metadata.owner_references] == [("1", True, True)]
    assert template.metadata.labels == plain["spec"]["template"]["metadata"]["labels"] == {"a": "b"}
    assert plain["metadata"] == {
        "generateName": "owner-",
        "namespace": "ns",
        "labels": {"a": "b"},
        "ownerReferences": [dict(kopf.build_owner_reference(owner))],
    }
    for obj in (deployment, plain):
        kopf.harmonize_naming(obj, "other", strict=True, forced=True)
        kopf.adjust_namespace(obj, "elsewhere", forced=True)
        kopf.label(obj, {"a": "c"}, forced=True)
        kopf.remove_owner_reference(obj, owner)
    assert (metadata.name, metadata.generate_name, metadata.namespace) == ("other", None, "elsewhere")
    assert (metadata.labels, metadata.owner_references) == ({"a": "c"}, [])
    assert plain["metadata"] == {
        "name": "other",
        "namespace": "elsewhere",
        "labels": {"a": "c"},
        "ownerReferences": [],
    }
    with pytest.raises(LookupError):
        kopf.adopt(plain)
    with pytest.raises(TypeError):
        kopf.label([1], {})


@behaviour("kopf/KO19")
def test_events_of_one_object_merge_and_the_last_state_is_delivered(on: Any, start: Any) -> None:
    seen: list[Any] = []

    @on.event()
    def slow(spec: Any, type: str | None, event: Any, name: str, **_: Any) -> None:  # noqa: A002 - kopf's word
        seen.append((name, type, spec.get("n"), event["object"]["spec"].get("n")))
        if len(seen) == 1:
            # A storm while the handler runs.
            for number in range(50):
                running.client.patch("kopf.dev/v1", "KopfExample", name, "default", {"spec": {"n": number}})

    running = start()
    running.create()
    assert seen[0] == ("ex", "ADDED", None, None)
    assert seen[-1] == ("ex", "MODIFIED", 49, 49)
    assert len(seen) < 50
    assert len(set(seen)) == len(seen)
    running.delete()
    assert seen[-1] == ("ex", "DELETED", 49, 49)


@behaviour("kopf/KO19")
def test_an_event_is_delivered_once_for_each_state(on: Any, start: Any) -> None:
    seen: list[Any] = []
    on.event()(lambda type, meta, **_: seen.append((type, meta["resourceVersion"])))  # noqa: A006 - kopf's word

    @on.create()
    def retried(retry: int, **_: Any) -> None:
        if retry < 3:
            raise kopf.TemporaryError("again", delay=5)

    running = start()
    running.create()
    for _ in range(4):
        running.advance(5)
    assert len(seen) == len(set(seen))
    running.host.stop()
    again = start(sandbox=running.host.sandbox)
    assert seen[-1] == (None, again.get()["metadata"]["resourceVersion"])
