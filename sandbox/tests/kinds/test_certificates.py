"""Decisions about certificate requests, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.http_client import Api

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_serial = itertools.count(1)


@pytest.fixture
def request_path(each_api: Api) -> str:
    """The path of a request that nobody has decided about."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
        serialization.Encoding.PEM
    )
    spec = {"request": base64.b64encode(pem).decode(), "signerName": "example.com/x", "usages": ["digital signature"]}
    name = f"request-{next(_serial)}"
    each_api.post(PATH, {"metadata": {"name": name}, "spec": spec}).expect(201)
    return f"{PATH}/{name}"


def types(request: dict[str, Any]) -> list[str]:
    return [condition["type"] for condition in (request.get("status") or {}).get("conditions") or ()]


@pytest.mark.behaviour("findings/FS28")
def test_a_decision_is_written_through_approval_only(each_api: Api, request_path: str) -> None:
    decision = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
    other = {"type": "Other", "status": "True", "reason": "r"}
    body = {"metadata": {"annotations": {"a": "b"}}, "status": {"conditions": [decision]}}
    # Not through the object itself, and not through its status.
    assert types(each_api.patch(request_path, body).expect(200)) == []
    refused = each_api.patch(f"{request_path}/status", body).fails(422, "Invalid", "status.conditions")
    assert 'updates may not add a condition of type "Approved"' in refused["message"]
    body["status"]["conditions"].append(other)
    body["spec"] = {"signerName": "example.com/y"}
    request = each_api.patch(f"{request_path}/approval", body).expect(200)
    assert types(request) == ["Approved", "Other"]
    assert request["metadata"]["annotations"] == {"a": "b"}
    assert request["spec"]["signerName"] == "example.com/x"
    request["status"]["conditions"].append({"type": "Third", "status": "Unknown"})
    assert types(each_api.put(f"{request_path}/approval", request).expect(200)) == ["Approved", "Other", "Third"]
    assert types(each_api.get(f"{request_path}/approval").expect(200)) == ["Approved", "Other", "Third"]
    fourth = [*request["status"]["conditions"], {"type": "Fourth", "status": "True"}]
    written = each_api.patch(f"{request_path}/status", {"status": {"conditions": fourth}}).expect(200)
    assert types(written) == ["Approved", "Other", "Third", "Fourth"]
