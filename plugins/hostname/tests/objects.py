"""Builders of leases, ProviderHosts, Manifests and routes, including those of the examples."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from ctrlhost_hostname.claims import Claim, ProviderHost, read_claim
from ctrlhost_hostname.ingress import IngressRoutes
from ctrlhost_hostname.lease import _CHARSET, LeaseID, _polymod
from ctrlhost_hostname.manifest import DEFAULT_HTTP_OPTIONS, Manifest

GATEWAY_API = Path(__file__).parents[3] / "sandbox" / "tests" / "crds" / "gateway_api.yaml"


def encode_address(prefix: str, data: bytes) -> str:
    """Encode bytes as an address with its checksum."""
    length = -(-len(data) * 8 // 5)
    bits = int.from_bytes(data, "big") << length * 5 - len(data) * 8
    return encode_words(prefix, [bits >> 5 * (length - 1 - position) & 31 for position in range(length)])


def encode_words(prefix: str, words: list[int]) -> str:
    """Encode five-bit words as an address with its checksum."""
    expanded = [*(ord(letter) >> 5 for letter in prefix), 0, *(ord(letter) & 31 for letter in prefix)]
    checksum = _polymod([*expanded, *words, *[0] * 6]) ^ 1
    words = [*words, *(checksum >> 5 * (5 - position) & 31 for position in range(6))]
    return f"{prefix}1" + "".join(_CHARSET[word] for word in words)


PROVIDER = encode_address("akash", bytes(range(101, 121)))
OWNER = encode_address("akash", bytes(range(1, 21)))
OTHER_OWNER = encode_address("akash", bytes(range(41, 61)))
SHOP = "shop.example.com"
LONGEST = ".".join(["a" * 50] * 4) + "." + "b" * 49

#: Hostnames that are invalid in a claim.
IMPOSSIBLE = [
    pytest.param("*.example.com", marks=pytest.mark.behaviour("hostname/35")),
    pytest.param("Shop.Example.com", marks=pytest.mark.behaviour("hostname/36")),
    pytest.param("a" * 254, marks=pytest.mark.behaviour("hostname/37")),
    pytest.param("10.0.0.1", marks=pytest.mark.behaviour("hostname/38")),
    pytest.param("shop.example.com.", marks=pytest.mark.behaviour("hostname/38")),
    pytest.param("my_shop.example.com", marks=pytest.mark.behaviour("hostname/38")),
    pytest.param("", marks=pytest.mark.behaviour("hostname/38")),
]


_WEB = """
- {name: db, image: "postgres:16", count: 1, expose: [{port: 5432, service: web}]}
- name: web
  image: nginx:1.27
  count: 2
  expose:
  - {port: 9100, proto: TCP}
  - {port: 8080, external_port: 80, proto: TCP, global: true, hosts: [shop.example.com]}
"""
_API_AND_WORKER = """
- name: api
  count: 1
  expose:
  - {port: 3000, external_port: 80, proto: TCP, global: true, http_options: {max_body_size: 2097152, read_timeout: 1500,
     send_timeout: 60001, next_tries: 5, next_timeout: 0, next_cases: [error, timeout, "500", "502", "429"]}}
- name: worker
  count: 1
  expose:
  - {port: 8081, proto: TCP, global: true, http_options: {max_body_size: 104857600, read_timeout: 60000,
     send_timeout: 30000, next_tries: 3, next_timeout: 1, next_cases: ["off"]}}
"""


class Objects:
    """Builds leases, ProviderHosts and Manifests; the first two leases have one owner, the third another."""

    namespace = "lease"
    provider = PROVIDER
    owner = OWNER
    first = LeaseID(OWNER, 7001, 1, 1, PROVIDER)
    second = LeaseID(OWNER, 7002, 1, 1, PROVIDER)
    third = LeaseID(OTHER_OWNER, 9100, 2, 3, PROVIDER)

    @staticmethod
    def lease(dseq: int, owner: str = OWNER) -> LeaseID:
        return LeaseID(owner, dseq, 1, 1, PROVIDER)

    @classmethod
    def provider_host(
        cls,
        hostname: str,
        lease: LeaseID,
        *,
        service: str = "web",
        port: int = 80,
        name: str | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        parts = {key: value for key, value in lease.as_json().items() if key != "bseq"}
        metadata = {"name": name or hostname, "namespace": cls.namespace, "labels": dict(lease.labels)}
        return {
            "apiVersion": "akash.network/v2beta2",
            "kind": "ProviderHost",
            "metadata": metadata,
            "spec": {"hostname": hostname, **parts, "service_name": service, "external_port": port, **spec},
        }

    @classmethod
    def manifest(cls, lease: LeaseID, services: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        parts = {key: value for key, value in lease.as_json().items() if key != "bseq"}
        labels = {"akash.network": "true", "akash.network/namespace": lease.namespace}
        group = {"name": "main", "services": copy.deepcopy(services or cls.web_services())}
        return {
            "apiVersion": "akash.network/v2beta2",
            "kind": "Manifest",
            "metadata": {"name": lease.namespace, "namespace": cls.namespace, "labels": labels},
            "spec": {"lease_id": {**parts, "dseq": str(lease.dseq)}, "group": group},
        }

    @staticmethod
    def web_services(options: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """A private database and a web service with a private and a global port."""
        services: list[dict[str, Any]] = yaml.safe_load(_WEB)
        services[1]["expose"][1]["http_options"] = options or {}
        return services

    @staticmethod
    def service(*expose: dict[str, Any], name: str = "web", count: int = 1) -> dict[str, Any]:
        return {"name": name, "count": count, "expose": list(expose)}

    @staticmethod
    def api_and_worker() -> list[dict[str, Any]]:
        """The services of the examples B and C."""
        services: list[dict[str, Any]] = yaml.safe_load(_API_AND_WORKER)
        return services

    @staticmethod
    def route(hostname: str, lease: LeaseID, service: str = "web", port: int = 80) -> dict[str, Any]:
        """The Ingress of a hostname as the plugin would write it."""
        return IngressRoutes().build(Objects.claim(hostname, lease, service, port), DEFAULT_HTTP_OPTIONS)

    @staticmethod
    def claim(hostname: str, lease: LeaseID, service: str = "web", port: int = 80) -> Claim:
        return Claim(hostname, hostname, lease, service, port, "")

    @classmethod
    def read_claim(cls, *, name: str | None = None, **spec: Any) -> Claim:
        """The claim of a ProviderHost of the first lease."""
        host = cls.provider_host("shop.example.com", cls.first, name=name, **spec)
        return read_claim(msgspec.json.decode(msgspec.json.encode(host), type=ProviderHost), "akash")

    @staticmethod
    def read_manifest(services: list[dict[str, Any]]) -> Manifest:
        """A Manifest as the plugin reads it; `msgspec.ValidationError` if it does not fit."""
        obj = {"metadata": {"name": "m"}, "spec": {"group": {"services": services}}}
        return msgspec.json.decode(msgspec.json.encode(obj), type=Manifest)

    @staticmethod
    def http_route_crd() -> dict[str, Any]:
        """A CRD of HTTPRoutes with the fields that the plugin writes; the published one is downloaded with Go."""
        crds = yaml.safe_load_all(GATEWAY_API.read_text(encoding="utf-8"))
        return next(crd for crd in crds if crd and crd["spec"]["names"]["kind"] == "HTTPRoute")
