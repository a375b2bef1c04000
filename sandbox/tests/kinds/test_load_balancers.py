"""The addresses of load balancers in the status of Services and Ingresses, checked as by a real server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http_client import Api
from tests.support.objects import core, ingress, service

IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NOT_AN_IP = "must be a DNS name, not an IP address"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
CASES = [
    ({"ip": "::ffff:1.2.3.4"}, "ip", "must not be an IPv4-mapped IPv6 address"),
    ({"ip": "010.0.0.1"}, "ip", "must not have leading 0s"),
    ({"ip": "::ffff:010.2.3.4"}, "ip", "must not have leading 0s"),
    *[({"ip": text}, "ip", IP) for text in ("1.2.3", "1.2.3.4.5", "fe80::1%eth0", "10.0.0.0/8", "[::1]")],
    *[
        ({"hostname": text}, "hostname", SUBDOMAIN)
        for text in ("a_b", "LB.example.com", "lb.example.com.", "*.a.example")
    ],
    *[({"hostname": text}, "hostname", NOT_AN_IP) for text in ("10.0.0.1", "010.0.0.1")],
    ({"hostname": "a" * 254}, "hostname", "must be no more than 253 characters"),
]


@pytest.fixture(params=["services", "ingresses"])
def path(request: pytest.FixtureRequest, api: Api, ns: str) -> str:
    """The path of the status of a new Service of type LoadBalancer, or of an Ingress."""
    if request.param == "services":
        api.post(core(ns, "services"), service("a", type="LoadBalancer")).expect(201)
        return core(ns, "services", "a") + "/status"
    base = f"/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses"
    api.post(base, ingress("a")).expect(201)
    return f"{base}/a/status"


def balancer(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"loadBalancer": {"ingress": list(entries)}}}


def test_invalid_addresses_are_refused(api: Api, path: str) -> None:
    for entry, field, text in CASES:
        refused = api.patch(path, balancer({"ip": "1.1.1.1"}, entry)).fails(422, "Invalid")
        (cause,) = refused["details"]["causes"]
        assert cause["field"] == f"status.loadBalancer.ingress[1].{field}"
        assert cause["message"].startswith(f'Invalid value: "{entry[field]}": {text}')
    assert "ingress" not in api.get(path).json()["status"]["loadBalancer"]


def test_addresses_are_stored_unchanged(api: Api, path: str) -> None:
    entries = [{"ip": "1.1.1.1", "hostname": "h.example"}, {"hostname": f"{'a' * 64}.example"}]
    stored = api.patch(path, balancer(*entries)).expect(200)["status"]["loadBalancer"]["ingress"]
    assert [{key: entry[key] for key in entry if key != "ipMode"} for entry in stored] == entries
    answer = api.patch(path, balancer({"ip": "2001:DB8:0:0::1"}))
    assert answer.expect(200)["status"]["loadBalancer"]["ingress"][0]["ip"] == "2001:DB8:0:0::1"
    (warning,) = answer.warnings
    assert "should be in RFC 5952 canonical format" in warning
    # An unchanged address is accepted without a warning.
    again = api.patch(path, balancer({"ip": "2001:DB8:0:0::1"}, {"hostname": "h"}))
    again.expect(200)
    assert again.warnings == []


def test_only_addresses_of_load_balancers_have_a_mode(api: Api, ns: str) -> None:
    api.post(core(ns, "services"), service("a", type="LoadBalancer")).expect(201)
    path = core(ns, "services", "a")
    stored = api.patch(f"{path}/status", balancer({"ip": "1.1.1.1"}, {"hostname": "h"})).expect(200)["status"]
    assert stored["loadBalancer"]["ingress"] == [{"ip": "1.1.1.1", "ipMode": "VIP"}, {"hostname": "h"}]
    wrong = api.patch(
        f"{path}/status", balancer({"ip": "1.1.1.1", "ipMode": "Bad"}, {"hostname": "h", "ipMode": "VIP"})
    )
    causes = [
        (cause["field"].rpartition("ingress")[2], cause["reason"]) for cause in wrong.fails(422)["details"]["causes"]
    ]
    assert causes == [("[0].ipMode", "FieldValueNotSupported"), ("[1].ipMode", "FieldValueForbidden")]
    # A Service of another type has no load balancer, so its addresses are removed.
    changed = api.patch(path, {"spec": {"type": "ClusterIP"}}).expect(200)
    assert changed["status"] == {"loadBalancer": {}}
    refused = api.patch(f"{path}/status", balancer({"ip": "1.1.1.1"})).fails(422)
    assert "may only be used when `spec.type` is 'LoadBalancer'" in refused["message"]
