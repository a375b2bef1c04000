"""Every built-in kind on the sandbox and on a real kube-apiserver: defaults, tables, deletions and refusals."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ctrlhost_sandbox.registry.builtin import builtin_kinds
from ctrlhost_sandbox.registry.registry import Kind

from sandbox.tests.kinds.invalid_objects import INVALID, UPDATES, Change, changed
from tests.support.compared import outcome_of
from tests.support.control_plane import KubeApiserver, SandboxControlPlane
from tests.support.http_client import Api
from tests.support.minimal_objects import minimal_objects, name_for
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KINDS = [kind for kind in builtin_kinds() if (kind.group, kind.kind) in minimal_objects()]
#: Fields of metadata that no two servers have in common, and times.
OWN = {"uid", "creationTimestamp", "resourceVersion", "time", "lastTransitionTime", "lastPhaseTransitionTime"}
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\d+s|<invalid>")
#: Kinds whose status a controller of one of the servers writes at any time; other tests may run those of workloads.
CONTROLLED = (
    *("APIService", "FlowSchema", "ResourceQuota", "PodDisruptionBudget", "PersistentVolumeClaim"),
    *("CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
)
_serial = itertools.count(1)
Both = tuple[Api, Api]


@pytest.fixture(scope="module")
def both(sandbox_control_plane: SandboxControlPlane, kube_apiserver: KubeApiserver) -> Iterator[Both]:
    """Clients of the sandbox and of the real server."""
    with api_of(sandbox_control_plane.kubeconfig) as ours, api_of(kube_apiserver.kubeconfig) as theirs:
        eventually(lambda: theirs.get("/api/v1/namespaces/default").status == 200)
        yield ours, theirs


def title(kind: Kind) -> str:
    return f"{kind.kind}.{kind.api_version}"


def path_of(kind: Kind) -> str:
    base = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    return f"{base}/namespaces/default/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"


def settled(value: Any) -> Any:
    """Remove what differs between two servers by nature."""
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items() if key not in OWN}
    if isinstance(value, list):
        return [settled(item) for item in value]
    if not isinstance(value, str):
        return value
    return "TIME" if TIME.fullmatch(value) else UID.sub("UID", value.replace("sandbox-admin", "admin"))


def table(api: Api, path: str) -> Any:
    """Return the heads, without descriptions, and the cells of an object."""
    answer = api.get(path, TABLE).expect(200)
    heads = [{key: head[key] for key in head if key != "description"} for head in answer["columnDefinitions"]]
    return heads, settled([row["cells"] for row in answer["rows"]])


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1c")
@pytest.mark.parametrize("kind", KINDS, ids=title)
def test_a_minimal_object_gets_the_real_defaults_and_cells(both: Both, kind: Kind) -> None:
    number = next(_serial)
    name, path = name_for(kind.kind, f"minimal-{number}", number), path_of(kind)
    body = {"metadata": {"name": name}, **minimal_objects()[kind.group, kind.kind]}
    answers = [api.post(path, body) for api in both]
    try:
        assert [answer.status for answer in answers] == [201, 201]
        assert answers[0].warnings == answers[1].warnings
        ours, theirs = (settled(answer.json()) for answer in answers)
        assert ours == theirs
        if kind.kind not in CONTROLLED:
            ours, theirs = (table(api, f"{path}/{name}") for api in both)
            assert ours == theirs
    finally:
        gone = [api.delete(f"{path}/{name}") for api in both]
    assert [answer.status for answer in gone] == [200, 200]
    assert gone[0].warnings == gone[1].warnings
    assert gone[0].json()["kind"] == gone[1].json()["kind"]


REFUSED = [
    (kind, change)
    for kind in KINDS
    for change in INVALID.get((kind.group, kind.kind), ())
    # Version 1 of autoscaling has neither of them.
    if kind.version == "v2" or not {"spec.metrics", "spec.behavior"} & set(change)
]


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1f")
@pytest.mark.parametrize(("kind", "change"), REFUSED, ids=[f"{title(kind)} {change}"[:90] for kind, change in REFUSED])
def test_invalid_objects_have_the_real_causes(both: Both, kind: Kind, change: Change) -> None:
    number = next(_serial)
    body = changed(kind.group, kind.kind, name_for(kind.kind, f"invalid-{number}", number), change)
    ours, theirs = (outcome_of(api.post(path_of(kind), body, dryRun="All")) for api in both)
    assert (ours[0], fields_of(ours[1])) == (theirs[0], fields_of(theirs[1]))
    assert ours[0] == 422


def fields_of(causes: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    return {(reason, field) for reason, field, _ in causes}


CHANGED = [(kind, change) for kind in KINDS for change in UPDATES.get((kind.group, kind.kind), ())]


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1f")
@pytest.mark.parametrize(("kind", "change"), CHANGED, ids=[f"{title(kind)} {change}"[:90] for kind, change in CHANGED])
def test_updates_are_accepted_or_refused_as_by_a_real_server(both: Both, kind: Kind, change: Change) -> None:
    number = next(_serial)
    name, path = name_for(kind.kind, f"changed-{number}", number), path_of(kind)
    body = {"metadata": {"name": name}, **minimal_objects()[kind.group, kind.kind]}
    objects = [api.post(path, body).expect(201) for api in both]
    try:
        verdicts = []
        for api, stored in zip(both, objects, strict=True):
            wanted = changed(kind.group, kind.kind, name, change)
            if kind.kind == "Job":
                # The generated selector and labels are immutable.
                generated = stored["spec"]["template"]["metadata"]
                wanted["spec"] |= {"selector": stored["spec"]["selector"]}
                wanted["spec"]["template"]["metadata"] = generated
            code = 409
            while code == 409:
                # A controller of the real server may write in between.
                live = api.get(f"{path}/{name}").json()
                wanted["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
                answer = api.put(f"{path}/{name}", wanted)
                code, causes, warnings = outcome_of(answer)
            result = settled(answer.json()) if code == 200 else None
            if result is not None and kind.kind in CONTROLLED:
                del result["metadata"]["managedFields"]
                result.pop("status", None)
            verdicts.append((code, fields_of(causes), warnings, result))
        assert verdicts[0] == verdicts[1]
    finally:
        for api in both:
            api.delete(f"{path}/{name}")


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1d")
@pytest.mark.parametrize("kind", KINDS, ids=title)
def test_every_kind_is_watched(both: Both, kind: Kind) -> None:
    number = next(_serial)
    name, path = name_for(kind.kind, f"watched-{number}", number), path_of(kind)
    body = {"metadata": {"name": name}, **minimal_objects()[kind.group, kind.kind]}
    seen = []
    for api in both:
        events = api.watch(path, fieldSelector=f"metadata.name={name}", resourceVersion=api.revision(path))
        try:
            api.post(path, body).expect(201)
            added = events.next()
            api.patch(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}}).expect(200)
            changes = [events.next()]
            while "labels" not in changes[-1]["object"]["metadata"]:
                # A controller of the real server wrote first.
                changes.append(events.next())
            seen.append((added["type"], changes[-1]["type"], changes[-1]["object"]["kind"]))
        finally:
            events.close()
            api.delete(f"{path}/{name}")
    assert seen == [("ADDED", "MODIFIED", kind.kind)] * 2


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1f")
@pytest.mark.parametrize("kind", KINDS, ids=title)
def test_fields_of_every_kind_are_validated(both: Both, kind: Kind) -> None:
    number = next(_serial)
    body = {"metadata": {"name": name_for(kind.kind, f"strict-{number}", number)}, "nonesuch": 1}
    body |= minimal_objects()[kind.group, kind.kind]
    for mode in ("Strict", "Warn", "Ignore"):
        answers = [api.post(path_of(kind), body, dryRun="All", fieldValidation=mode) for api in both]
        ours, theirs = ((answer.status, answer.warnings, answer.json().get("message")) for answer in answers)
        assert ours == theirs
        assert ours[0] == (400 if mode == "Strict" else 201)
