"""Field selectors of every built-in kind, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import pytest
from ctrlhost_sandbox.registry.builtin import builtin_kinds
from ctrlhost_sandbox.registry.registry import Kind

from tests.support.http_client import Api
from tests.support.minimal_objects import minimal_objects

KINDS = [kind for kind in builtin_kinds() if "list" in kind.verbs]
FIELDS = [
    *("metadata.name", "metadata.namespace", "spec.nonesuch", "status.successful", "spec.signerName"),
    *("status.replicas", "spec.driver", "spec.nodeName", "status.podIPs", "status.phase"),
]


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1b")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind}.{kind.api_version}")
def test_the_same_fields_select_on_both_servers(both: tuple[Api, Api], kind: Kind) -> None:
    path = f"/apis/{kind.api_version}/{kind.plural}" if kind.group else f"/api/{kind.version}/{kind.plural}"
    for field in FIELDS:
        answers = [api.get(path, fieldSelector=f"{field}=nothing-has-this") for api in both]
        results = [(answer.status, answer.json().get("message"), answer.json().get("items")) for answer in answers]
        assert results[0] == results[1], field
        assert results[0][0] in (200, 400)


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1b")
def test_selectors_find_jobs_and_requests(both: tuple[Api, Api]) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    bodies = {
        path: minimal_objects()[key]
        for path, key in ((jobs, ("batch", "Job")), (requests, ("certificates.k8s.io", "CertificateSigningRequest")))
    }
    for api in both:
        try:
            for path, body in bodies.items():
                api.post(path, {"metadata": {"name": "selected"}, **body}).expect(201)
            for path, selector, count in (
                (jobs, "status.successful=0,metadata.name=selected", 1),
                (jobs, "status.successful=1,metadata.name=selected", 0),
                (requests, "spec.signerName=example.com/none,metadata.name=selected", 1),
                (requests, "spec.signerName!=example.com/none,metadata.name=selected", 0),
            ):
                assert len(api.get(path, fieldSelector=selector).expect(200)["items"]) == count
        finally:
            for path in bodies:
                api.delete(f"{path}/selected", propagationPolicy="Background")
