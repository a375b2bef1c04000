"""The rights that `ctrlhost manifests` prints for the plugin: exactly those that it uses."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.bitcoin.tests.cluster import NAME, SVC

GROUP = "bitcoincontroller.christianb93.github.com"


@pytest.fixture
def ctrlhost_least_privilege() -> bool:
    """The server enforces the rights that are printed."""
    return True


@pytest.mark.behaviour("bitcoin/B42")
def test_the_printed_rights_are_what_the_plugin_uses(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net(2)
    cluster.pods(2)
    cluster.edit(nodes=3)
    cluster.client.patch(*SVC, f"{NAME}-svc", "test", {"spec": {"publishNotReadyAddresses": False}})
    cluster.idle()
    assert cluster.sts()["spec"]["replicas"] == 3
    assert cluster.svc()["spec"]["publishNotReadyAddresses"]
    assert cluster.condition("Reconciled") == ("True", "Reconciled")
    assert replica.controller.status().errors == 0
    # Others are the host's own.
    own = ("events.k8s.io", "apiextensions.k8s.io")
    assert [right for right in replica.host.unused_rights() if right[0] not in own] == []
    rights = {(group, resource, verb) for group, resource, verb in replica.host.account.asked if group not in own}
    assert rights == {
        *((GROUP, "bitcoinnetworks", verb) for verb in ("list", "watch")),
        (GROUP, "bitcoinnetworks/status", "patch"),
        (GROUP, "bitcoinnetworks/finalizers", "update"),
        *(("apps", "statefulsets", verb) for verb in ("create", "get", "list", "patch", "watch")),
        *(("", "services", verb) for verb in ("create", "get", "list", "patch", "watch")),
        *(("", resource, verb) for resource in ("events", "pods", "secrets") for verb in ("list", "watch")),
    }
