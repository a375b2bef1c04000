"""The audit log of writes: the records for tests, and the file of audit events."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import pytest
from ctrlhost_sandbox import AuditRecord, Sandbox
from ctrlhost_sandbox.auth.audit import MAX_RECORDS
from ctrlhost_sandbox.errors import SandboxError

from tests.support.http_client import APPLY, Api
from tests.support.objects import config_map, core


def of_namespace(server: Sandbox, namespace: str) -> list[AuditRecord]:
    return [record for record in server.audit if record.namespace == namespace]


def test_writes_are_recorded_with_user_object_time_and_outcome(server: Sandbox, api: Api, ns: str) -> None:
    before, wall = time.monotonic(), time.time()
    path = core(ns, "configmaps")
    api.post(path, config_map("a"), headers={"User-Agent": "one"}).expect(201)
    api.put(f"{path}/a", config_map("a", {"k": "w"}), headers={"User-Agent": "two"}).expect(200)
    api.patch(f"{path}/a", {"data": {"k": "x"}}, headers={"Impersonate-User": "ann"}).expect(200)
    api.delete(f"{path}/a").expect(200)
    api.delete(path).expect(200)
    after = time.monotonic()
    recorded = [record for record in of_namespace(server, ns) if record.resource == "configmaps"]
    assert [(record.verb, record.name, record.code) for record in recorded] == [
        ("create", "a", 201),
        ("update", "a", 200),
        ("patch", "a", 200),
        ("delete", "a", 200),
        ("deletecollection", "", 200),
    ]
    assert [record.user_agent for record in recorded[:2]] == ["one", "two"]
    assert [(record.user, record.impersonator) for record in recorded[1:3]] == [
        ("sandbox-admin", ""),
        ("ann", "sandbox-admin"),
    ]
    assert {(record.group, record.version, record.subresource, record.dry_run) for record in recorded} == {
        ("", "v1", "", False)
    }
    assert json.loads(recorded[0].body) == config_map("a")
    assert [before, *sorted(record.monotonic for record in recorded), after] == sorted(
        [before, *(record.monotonic for record in recorded), after]
    )
    assert all(0 <= record.time - wall < 60 for record in recorded)
    assert all(record.duration >= 0 for record in recorded)


def test_refused_writes_dry_runs_and_subresources_are_recorded_too(server: Sandbox, api: Api, ns: str) -> None:
    path = core(ns, "services")
    api.post(path, {"metadata": {"name": "s"}, "spec": {}}).fails(422)
    api.post(path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}, dryRun="All").expect(201)
    api.put(f"{path}/s/status", {"metadata": {"name": "s"}}).fails(422)
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\n"
    api.request("PATCH", f"{core(ns, 'configmaps')}/x", body, content_type=APPLY, fieldManager="m").expect(201)
    api.request("POST", path, config_map("s"), headers={"Authorization": "Bearer wrong"}).fails(401)
    recorded = [record for record in of_namespace(server, ns) if record.resource in ("services", "configmaps")]
    assert [(record.verb, record.subresource, record.code, record.dry_run, record.user) for record in recorded] == [
        ("create", "", 422, False, "sandbox-admin"),
        ("create", "", 201, True, "sandbox-admin"),
        ("update", "status", 422, False, "sandbox-admin"),
        ("patch", "", 201, False, "sandbox-admin"),
        ("create", "", 401, False, ""),
    ]


def test_a_generated_name_is_recorded(server: Sandbox, api: Api, ns: str) -> None:
    obj = api.post(core(ns, "configmaps"), {"metadata": {"generateName": "made-"}}).expect(201)
    assert of_namespace(server, ns)[-1].name == obj["metadata"]["name"]


def test_reads_and_reviews_are_not_recorded(server: Sandbox, api: Api, ns: str) -> None:
    before = len(server.audit)
    api.get(core(ns, "configmaps")).expect(200)
    api.get("/apis").expect(200)
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).expect(201)
    assert len(server.audit) == before


def test_the_records_are_bounded_and_empty_at_each_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrlhost_sandbox.auth.audit.MAX_RECORDS", 5)
    assert MAX_RECORDS == 10_000
    sandbox = Sandbox()
    with sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        for number in range(8):
            api.post(core("default", "configmaps"), config_map(f"n{number}")).expect(201)
        assert [record.name for record in sandbox.audit] == ["n3", "n4", "n5", "n6", "n7"]
    assert len(sandbox.audit) == 5
    with sandbox:
        assert sandbox.audit == []


def test_large_bodies_evict_old_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrlhost_sandbox.auth.audit.MAX_BYTES", 2500)
    with Sandbox() as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        for number in range(4):
            api.post(core("default", "configmaps"), config_map(f"n{number}", {"k": "v" * 1000})).expect(201)
        assert [record.name for record in sandbox.audit] == ["n2", "n3"]


def test_the_file_has_an_audit_event_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    with (
        Sandbox(audit_log=file) as sandbox,
        Api(sandbox.url, sandbox.ca, sandbox.token) as api,
    ):
        secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
        answer = api.post(core("default", "secrets"), secret, headers={"Impersonate-User": "ann"})
        api.get(core("default", "secrets"), labelSelector="a=b").expect(200)
        api.get("/healthz")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        text = file.read_text()
        token = sandbox.token
    created, listed, health = map(json.loads, text.splitlines())
    assert (created["kind"], created["apiVersion"]) == ("Event", "audit.k8s.io/v1")
    assert (created["level"], created["stage"]) == ("Metadata", "ResponseComplete")
    assert created["auditID"] == answer.headers["Audit-Id"]
    assert created["user"]["username"] == "sandbox-admin"
    assert created["impersonatedUser"]["username"] == "ann"
    assert created["objectRef"] == {"resource": "secrets", "namespace": "default", "name": "s", "apiVersion": "v1"}
    assert created["responseStatus"]["code"] == 201
    assert created["requestReceivedTimestamp"] <= created["stageTimestamp"]
    assert listed["verb"] == "list"
    assert listed["requestURI"] == "/api/v1/namespaces/default/secrets?labelSelector=a%3Db"
    assert (health["verb"], health["requestURI"]) == ("get", "/healthz")
    assert "hunter2" not in text
    assert token not in text


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"cannot open the audit log .*missing/audit"):
        Sandbox(audit_log=tmp_path / "missing" / "audit").start()
