"""The operator meets the rules of API servers for claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ephemeral import EphemeralVolumeClaim, plugin

from ctrlhost.testing import HostUnderTest, StartHost

CLAIM = "v1/PersistentVolumeClaim"
FILE = Path(__file__).parents[1] / "claim.yaml"
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "growing"},
    "provisioner": "example.com/none",
    "allowVolumeExpansion": True,
}


@pytest.fixture
def host(ctrlhost_host: StartHost) -> HostUnderTest:
    """A host that has reconciled the example, with the rights that `ctrlhost manifests` prints."""
    host = ctrlhost_host(plugin, least_privilege=True)
    claim = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    claim["spec"]["storageClassName"] = "growing"
    host.apply(STORAGE_CLASS, claim)
    host.settle()
    return host


def bind(host: HostUnderTest) -> None:
    """Do what the controllers of a cluster do for a claim."""
    capacity: dict[str, Any] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    host.patch(CLAIM, "my-claim", {"spec": {"volumeName": "volume"}})
    host.patch(CLAIM, "my-claim", {"status": capacity}, subresource="status")
    host.settle()


def ready(host: HostUnderTest) -> str:
    status = host.get(EphemeralVolumeClaim, "my-claim").status
    assert status is not None
    condition = status.condition("Ready")
    assert condition is not None
    return condition.reason


def size(host: HostUnderTest) -> str:
    storage: str = host.get(CLAIM, "my-claim").get_path("spec", "resources", "requests", "storage")
    return storage


def test_a_claim_is_made_grows_and_does_not_shrink(host: HostUnderTest) -> None:
    claim = host.get(CLAIM, "my-claim")
    assert claim.is_controlled_by(host.get(EphemeralVolumeClaim, "my-claim"))
    assert (size(host), dict(claim.labels)) == ("1Gi", {"application": "some-app"})
    assert ready(host) == "Pending"
    bind(host)
    assert ready(host) == "Bound"
    host.patch(EphemeralVolumeClaim, "my-claim", {"spec": {"size": "2Gi"}})
    host.settle()
    assert size(host) == "2Gi"
    host.patch(EphemeralVolumeClaim, "my-claim", {"spec": {"size": "512Mi"}})
    host.settle(allow=("terminal",))
    assert (size(host), ready(host)) == ("2Gi", "Refused")
    host.patch(EphemeralVolumeClaim, "my-claim", {"spec": {"size": "2048Mi"}})
    host.settle()
    assert ready(host) == "Bound"


def test_labels_follow_also_those_that_are_removed(host: HostUnderTest) -> None:
    labels = {"application": None, "owner": "me"}
    host.patch(EphemeralVolumeClaim, "my-claim", {"metadata": {"labels": labels}})
    host.patch(CLAIM, "my-claim", {"metadata": {"labels": {"foreign": "kept"}}})
    host.settle()
    assert dict(host.get(CLAIM, "my-claim").labels) == {"owner": "me", "foreign": "kept"}


def test_a_deleted_claim_is_made_again(host: HostUnderTest) -> None:
    before = host.get(CLAIM, "my-claim").uid
    host.patch(CLAIM, "my-claim", {"metadata": {"finalizers": None}})
    host.delete(CLAIM, "my-claim")
    host.settle()
    assert host.get(CLAIM, "my-claim").uid != before


def test_every_right_is_used(host: HostUnderTest) -> None:
    assert host.unused_rights() == []
