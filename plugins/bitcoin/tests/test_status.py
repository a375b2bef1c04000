"""The status, assembled from the outcome of a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_bitcoin import status
from ctrlhost_bitcoin.status import Verdict, Wanted

if TYPE_CHECKING:
    from ctrlhost.testing import ManualClock

FOUND = {
    status.RECONCILED: status.FINE,
    status.CREDENTIALS_READY: Verdict(True, "FromSecret", "using secret rpc"),
    status.NODES_READY: Verdict(True, "AllReady", "3 of 3 nodes are ready"),
}
MESHED = {status.MESH_CONVERGED: Verdict(True, "Converged", "2 ready nodes know and reach their peers")}


def ready(network: dict[str, Any]) -> tuple[str, str]:
    (found,) = (one for one in network["status"]["conditions"] if one["type"] == "Ready")
    return found["status"], found["reason"]


def test_a_network_whose_nodes_changed_is_not_ready_before_they_were_asked(manual_clock: ManualClock) -> None:
    network: dict[str, Any] = {"metadata": {"name": "net", "generation": 1}, "spec": {"nodes": 3}}
    network["status"] = Wanted(FOUND | MESHED).applied(network, manual_clock)
    assert ready(network) == ("True", "Ready")
    # The old mesh is still shown as converged, but does not include the new node.
    network["status"] = Wanted(dict(FOUND)).applied(network, manual_clock)
    assert ready(network) == ("False", "Converging")
    network["status"] = Wanted(FOUND | MESHED).applied(network, manual_clock)
    assert ready(network) == ("True", "Ready")
