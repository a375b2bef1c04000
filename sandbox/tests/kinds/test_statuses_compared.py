"""Writes to the status of every kind that has one, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ctrlhost_sandbox.registry.builtin import builtin_kinds
from ctrlhost_sandbox.registry.registry import Kind

from tests.support.compared import outcome_of
from tests.support.http_client import Api
from tests.support.minimal_objects import minimal_objects, name_for

THEN, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def condition(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": "True", **more}


COMPLETE = [condition("SuccessCriteriaMet"), condition("Complete")]
STATUSES: dict[str, list[dict[str, Any]]] = {
    "CertificateSigningRequest": [
        {"certificate": "YQ=="},
        {"conditions": [condition("Failed")]},
        {"conditions": [condition("Failed", status="Unknown")]},
    ],
    "CronJob": [{"lastScheduleTime": THEN}],
    "HorizontalPodAutoscaler": [{"currentReplicas": 1, "desiredReplicas": 1}, {"currentReplicas": -1}],
    "Job": [
        {"active": 1},
        {"active": -1, "ready": 0},
        {"active": 1, "ready": 2},
        {"succeeded": 1, "startTime": THEN},
        {"completionTime": THEN},
        {"conditions": [condition("Complete")]},
        {"conditions": [condition("Failed")], "startTime": THEN},
        {"conditions": [condition("FailureTarget"), condition("Failed")], "startTime": THEN, "active": 1},
        {"conditions": COMPLETE, "startTime": THEN, "completionTime": LATER},
        {"conditions": COMPLETE, "startTime": LATER, "completionTime": THEN},
        {"conditions": [*COMPLETE, condition("FailureTarget"), condition("Failed")], "startTime": THEN},
    ],
    "PersistentVolume": [{"phase": "Available"}],
    "PersistentVolumeClaim": [{"phase": "Bound", "capacity": {"storage": "1Gi"}}, {"capacity": {"storage": "-1"}}],
    "PodDisruptionBudget": [
        {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        {"currentHealthy": -1},
        {"conditions": [{"type": "a"}]},
        {"conditions": [condition("a", reason="b c", lastTransitionTime=THEN)]},
    ],
    "ReplicationController": [{"replicas": 1}, {"replicas": -1}, {"replicas": 1, "readyReplicas": 2}],
    "ResourceClaim": [{"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}],
    "ResourceQuota": [{"hard": {"pods": "1"}, "used": {"pods": "0"}}, {"hard": {"nonesuch": "1"}}],
    "ServiceCIDR": [{"conditions": [condition("Ready", reason="a", message="", lastTransitionTime=THEN)]}],
    "VolumeAttachment": [{"attached": True}, {"attachError": {"message": "x" * 2000}}],
}
CASES = [(kind, state) for kind in builtin_kinds() if kind.has_status for state in STATUSES.get(kind.kind, ())]
_serial = itertools.count(1)


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1f")
@pytest.mark.parametrize(
    ("kind", "state"), CASES, ids=[f"{kind.kind}.{kind.version} {state}"[:80] for kind, state in CASES]
)
def test_statuses_are_checked_as_by_a_real_server(both: tuple[Api, Api], kind: Kind, state: dict[str, Any]) -> None:
    number = next(_serial)
    name, base = (
        name_for(kind.kind, f"status-{number}", number),
        f"/apis/{kind.api_version}" if kind.group else "/api/v1",
    )
    path = f"{base}/namespaces/default/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    verdicts = []
    for api in both:
        api.post(path, {"metadata": {"name": name}, **minimal_objects()[kind.group, kind.kind]}).expect(201)
        try:
            answer = api.patch(f"{path}/{name}/status", {"status": state})
            code, causes, _ = outcome_of(answer)
            written = {key: answer.json()["status"].get(key) for key in state} if code == 200 else None
            verdicts.append((code, {(reason, field) for reason, field, _ in causes}, written))
        finally:
            api.delete(f"{path}/{name}", propagationPolicy="Background")
    for verdict in verdicts:
        for entry in (verdict[2] or {}).get("conditions") or ():
            # A real server writes null for times that are missing.
            for field in [field for field, value in entry.items() if value is None]:
                del entry[field]
            # Set by the server at the time of the write.
            entry.pop("lastUpdateTime", None)
            if kind.kind == "CertificateSigningRequest":
                entry.pop("lastTransitionTime", None)
    if kind.kind != "ResourceQuota" or verdicts[1][0] != 200:
        assert verdicts[0] == verdicts[1]
    # A controller of the sandbox writes the status of quotas.
    assert verdicts[0][0] == verdicts[1][0]
