"""What is said of a network: the conditions, from what a pass found. Equal situations give equal texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost_bitcoin.mesh.mesh import MeshReport
    from ctrlhost_bitcoin.mesh.nodes import Node

RECONCILED = "Reconciled"
CREDENTIALS_READY = "CredentialsReady"
NODES_READY = "NodesReady"
MESH_CONVERGED = "MeshConverged"
READY = "Ready"
#: In the order in which they decide what `Ready` says.
PARTS = (RECONCILED, CREDENTIALS_READY, NODES_READY, MESH_CONVERGED)
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a condition says; `status` None is Unknown."""

    status: bool | None
    reason: str
    message: str


FINE = Verdict(True, "Reconciled", "service and stateful set are up to date")
NOT_LOOKED = Verdict(None, "Unknown", "the nodes were not asked for their peers")
NOT_YET = Verdict(False, "Converging", "nodes came or went, and are asked for their peers next")
UP = Verdict(True, "Ready", "network is up")


def nodes_ready(nodes: Sequence[Node], wanted: int) -> Verdict:
    """Judge the pods."""
    if not wanted:
        return Verdict(True, "ScaledToZero", "the network has no nodes")
    ready = sum(node.ready for node in nodes)
    reason = "AllReady" if ready == wanted else "WaitingForPods"
    return Verdict(ready == wanted, reason, f"{ready} of {wanted} nodes are ready")


def mesh_converged(report: MeshReport) -> Verdict:
    """Judge the mesh."""
    if report.unauthorized:
        return Verdict(False, "Unauthorized", f"{listed(report.unauthorized)}: wrong credentials")
    if report.unreachable:
        return Verdict(False, "NodeUnreachable", f"{listed(report.unreachable)}: no useful answer")
    if report.ready < 2:
        return Verdict(True, "SingleNode", f"{report.ready} ready nodes, so there is nothing to connect")
    if report.converged == report.ready:
        return Verdict(True, "Converged", f"{report.ready} ready nodes know and reach their peers")
    return Verdict(False, "Converging", f"{report.converged} of {report.ready} ready nodes know and reach their peers")


def credentials_refused(report: MeshReport) -> Verdict | None:
    """Say that daemons do not take the credentials, if that is so."""
    if not report.unauthorized:
        return None
    return Verdict(False, "Unauthorized", f"{listed(report.unauthorized)}: the credentials are not accepted")


def listed(pods: Sequence[str]) -> str:
    """Name some pods, and count the others."""
    named, more = ", ".join(pods[:_NAMED]), len(pods) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
