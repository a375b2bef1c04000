"""Objects of the specification's examples, and the pieces that most tests need."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ctrlhost.testing import ManualClock
from ctrlhost_hostname.bech32 import encode_address
from ctrlhost_hostname.lease import LeaseID

PROVIDER = encode_address("akash", bytes(range(101, 121)))
OWNER = encode_address("akash", bytes(range(1, 21)))
OTHER_OWNER = encode_address("akash", bytes(range(41, 61)))


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
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        fields = {
            "hostname": hostname,
            "owner": lease.owner,
            "provider": lease.provider,
            "dseq": lease.dseq,
            "gseq": lease.gseq,
            "oseq": lease.oseq,
            "service_name": service,
            "external_port": port,
        }
        return {
            "apiVersion": "akash.network/v2beta2",
            "kind": "ProviderHost",
            "metadata": {
                "name": name or hostname,
                "namespace": cls.namespace,
                "labels": dict(lease.labels),
                "annotations": annotations or {},
            },
            "spec": {**fields, **spec},
        }

    @classmethod
    def manifest(cls, lease: LeaseID, services: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        return {
            "apiVersion": "akash.network/v2beta2",
            "kind": "Manifest",
            "metadata": {
                "name": lease.namespace,
                "namespace": cls.namespace,
                "labels": {"akash.network": "true", "akash.network/namespace": lease.namespace},
            },
            "spec": {
                "lease_id": {
                    "owner": lease.owner,
                    "dseq": str(lease.dseq),
                    "gseq": lease.gseq,
                    "oseq": lease.oseq,
                    "provider": lease.provider,
                },
                "group": {"name": "main", "services": copy.deepcopy(services or cls.web_services())},
            },
        }

    @staticmethod
    def web_services(options: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """A private database and a web service with a private and a global port."""
        return [
            {"name": "db", "image": "postgres:16", "count": 1, "expose": [{"port": 5432, "service": "web"}]},
            {
                "name": "web",
                "image": "nginx:1.27",
                "count": 2,
                "expose": [
                    {"port": 9100, "proto": "TCP"},
                    {
                        "port": 8080,
                        "external_port": 80,
                        "proto": "TCP",
                        "global": True,
                        "hosts": ["shop.example.com"],
                        "http_options": options or {},
                    },
                ],
            },
        ]

    @staticmethod
    def service(*expose: dict[str, Any], name: str = "web", count: int = 1) -> dict[str, Any]:
        return {"name": name, "count": count, "expose": list(expose)}

    @staticmethod
    def api_and_worker() -> list[dict[str, Any]]:
        """The services of the examples B and C."""
        api = {
            "max_body_size": 2097152,
            "read_timeout": 1500,
            "send_timeout": 60001,
            "next_tries": 5,
            "next_timeout": 0,
            "next_cases": ["error", "timeout", "500", "502", "429"],
        }
        worker = {
            "max_body_size": 104857600,
            "read_timeout": 60000,
            "send_timeout": 30000,
            "next_tries": 3,
            "next_timeout": 1,
            "next_cases": ["off"],
        }
        return [
            {
                "name": "api",
                "count": 1,
                "expose": [{"port": 3000, "external_port": 80, "proto": "TCP", "global": True, "http_options": api}],
            },
            {
                "name": "worker",
                "count": 1,
                "expose": [{"port": 8081, "proto": "TCP", "global": True, "http_options": worker}],
            },
        ]


@pytest.fixture
def objects() -> type[Objects]:
    """The builders of example objects."""
    return Objects


@pytest.fixture
def clock(manual_clock: ManualClock) -> ManualClock:
    """The clock that everything in a test runs on."""
    return manual_clock
