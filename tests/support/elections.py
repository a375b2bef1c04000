"""Plugins on a host with leader election, whose lease the test gives and takes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from ctrlhost.coordination.lease import API_VERSION
from ctrlhost.errors import ServerError
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from ctrlhost import Client
    from ctrlhost.testing.host import HostUnderTest

LIMIT = 60.0
LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD = 15.0, 10.0, 2.0


def hold_lease(client: Client, name: str = "ctrlhost", *, holder: str = "another replica") -> None:
    """Write a replica that does not exist as the holder of a Lease."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": int(LEASE_DURATION), "leaseTransitions": 0}
    metadata = {"name": name, "namespace": "default"}
    client.create({"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec})


def lease(client: Client, name: str = "ctrlhost") -> dict[str, Any]:
    obj = client.find(API_VERSION, "Lease", name, "default")
    spec: dict[str, Any] = obj["spec"] if obj else {}
    return spec


def lapse_and_renew(host: HostUnderTest, plugin: Any) -> None:
    """Move the clock until the lease lapses and the same replica renews it, by the test's clock."""
    before = plugin.term
    host.clock.advance(RENEW_DEADLINE + 1)
    looks = itertools.count(1)

    def renewed() -> bool:
        # An elector that was not yet waiting when the clock moved began its pause after that.
        if next(looks) % 100 == 0:
            host.clock.advance(RETRY_PERIOD)
        return bool(plugin.term == before + 1)

    eventually(renewed, LIMIT, pause=0.01)


def lose(host: HostUnderTest, plugin: Any) -> None:
    """Move the clock until the lease lapses, and fail each renewal until the faults are cleared."""
    for verb in ("get", "replace"):
        host.faults.next(verb, ServerError("down"), resource="leases", times=100_000)
    host.clock.advance(RENEW_DEADLINE)
    eventually(lambda: plugin.term is None, LIMIT)


def gain(host: HostUnderTest, plugin: Any) -> None:
    """Lead again after `lose`."""
    host.faults.clear()

    def leads() -> bool:
        host.clock.advance(1)
        return plugin.term is not None

    eventually(leads, LIMIT, pause=0.01)


def secret(name: str, **data: str) -> dict[str, Any]:
    """Return an object of the kind that only plugins write in these tests."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def written(host: HostUnderTest, resource: str = "secrets") -> list[Any]:
    """Return the write requests for a resource that the server received."""
    return [record for record in host.sandbox.audit if record.resource == resource]


def refused(host: HostUnderTest) -> dict[tuple[str, str], int]:
    """Return the numbers of refused writes by plugin and reason, from the metrics; without zeros."""
    text = host.host.inspection.exposition("")[0].decode()
    counts = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "ctrlhost_writes_refused_total" and sample.value:
                counts[sample.labels["plugin"], sample.labels["reason"]] = int(sample.value)
    return counts
