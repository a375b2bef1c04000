"""The status of a network: its conditions, assembled from what a pass found, and the write where it differs."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_bitcoin.objects import names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost_bitcoin.mesh.mesh import MeshReport
    from ctrlhost_bitcoin.mesh.nodes import Node

RECONCILED = "Reconciled"
CREDENTIALS_READY = "CredentialsReady"
NODES_READY = "NodesReady"
MESH_CONVERGED = "MeshConverged"
READY = "Ready"
#: In the order of their precedence for `Ready`.
PARTS = (RECONCILED, CREDENTIALS_READY, NODES_READY, MESH_CONVERGED)
_MAX_NAMED = 5
_MAX_TRIES = 6
_MAX_PAUSE = 0.02


class OldCrd(ctrlhost.CtrlhostError):
    """The server drops fields of the status, since its CRD lacks them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The content of a condition, the same for the same situation; `status` None is Unknown."""

    status: bool | None
    reason: str
    message: str


FINE = Verdict(True, "Reconciled", "service and stateful set are up to date")
NOT_ASKED = Verdict(None, "Unknown", "the nodes were not asked for their peers")
PENDING = Verdict(False, "Converging", "nodes came or went, and are asked for their peers next")
UP = Verdict(True, "Ready", "network is up")


def nodes_ready(nodes: Sequence[Node], wanted: int, failure: str) -> Verdict:
    """Judge the pods; `failure` is why the last one could not be created."""
    if not wanted:
        return Verdict(True, "ScaledToZero", "the network has no nodes")
    ready = sum(node.ready for node in nodes)
    if failure and len(nodes) < wanted:
        return Verdict(False, "FailedCreate", f"{ready} of {wanted} nodes are ready: {failure}")
    reason = "AllReady" if ready == wanted else "WaitingForPods"
    return Verdict(ready == wanted, reason, f"{ready} of {wanted} nodes are ready")


def mesh_converged(report: MeshReport, wanted: int) -> Verdict:
    """Judge the mesh of a network of `wanted` nodes."""
    if report.unauthorized:
        return Verdict(False, "Unauthorized", f"{listed(report.unauthorized)}: wrong credentials")
    if report.unreachable:
        return Verdict(False, "NodeUnreachable", f"{listed(report.unreachable)}: no useful answer")
    if report.ready < min(wanted, 2):
        return Verdict(None, "WaitingForPods", f"{report.ready} of {wanted} nodes can be asked for their peers")
    if report.ready < 2:
        return Verdict(True, "SingleNode", f"{report.ready} ready nodes, so there is nothing to connect")
    if report.converged == report.ready:
        return Verdict(True, "Converged", f"{report.ready} ready nodes know and reach their peers")
    return Verdict(False, "Converging", f"{report.converged} of {report.ready} ready nodes know and reach their peers")


def credentials_refused(report: MeshReport) -> Verdict | None:
    """Return the verdict for daemons that refuse the credentials, if any do."""
    if not report.unauthorized:
        return None
    return Verdict(False, "Unauthorized", f"{listed(report.unauthorized)}: the credentials are not accepted")


def listed(pods: Sequence[str]) -> str:
    """Name the first pods and count the others."""
    named, more = ", ".join(pods[:_MAX_NAMED]), len(pods) - _MAX_NAMED
    return f"{named} and {more} more" if more > 0 else named


@dataclass(slots=True)
class Wanted:
    """The content of the status; a condition without a verdict stays as it is."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    #: None keeps the nodes as they are.
    nodes: Sequence[Node] | None = None
    replicas: int = 0

    def applied(self, network: Mapping[str, Any], clock: ctrlhost.Clock) -> dict[str, Any]:
        """Return the status that the network should have."""
        metadata = network["metadata"]
        status: dict[str, Any] = ctrlhost.plain(network.get("status") or {})
        generation = int(metadata.get("generation") or 0)
        if self.nodes is not None:
            name = metadata["name"]
            status["nodes"] = [node.entry(name) for node in self.nodes]
            status["replicas"] = self.replicas
            status["readyReplicas"] = sum(node.ready for node in self.nodes)
            status["selector"] = names.selector_text(name)
        status.setdefault("nodes", [])
        status["observedGeneration"] = generation
        holder, verdicts = {"status": status}, dict(self.verdicts)
        if self.nodes is not None and not condition(holder, MESH_CONVERGED):
            verdicts.setdefault(MESH_CONVERGED, NOT_ASKED)
        for type_ in (*PARTS, READY):
            verdict = _overall(holder, self.verdicts) if type_ == READY else verdicts.get(type_)
            if verdict is not None:
                given = (verdict.status, verdict.reason, verdict.message)
                ctrlhost.conditions.set(holder, type_, *given, clock, observed_generation=generation)
        return status


def condition(network: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return a condition of a network; an empty one where it has none."""
    return ctrlhost.conditions.get(network, type_) or {}


def write(ctx: ctrlhost.Context, network: dict[str, Any], wanted: Wanted) -> dict[str, Any] | None:
    """Write the status if it differs, and return the network as it is then; None if it is gone."""
    for left in reversed(range(_MAX_TRIES)):
        status = wanted.applied(network, ctx.clock)
        if status == network.get("status"):
            return network
        try:
            written = ctx.client.replace({**network, "status": status}, "status")
        except ctrlhost.NotFound:
            return None
        except ctrlhost.Conflict:
            if not left:
                raise
            # Time for the other writer to finish.
            time.sleep(random.uniform(0, _MAX_PAUSE))  # noqa: S311 - only keeps writers apart
            known = network["metadata"]
            fresh = ctx.client.find(names.API_VERSION, names.KIND, known["name"], known.get("namespace") or "")
            if fresh is None or fresh["metadata"]["uid"] != known["uid"]:
                return None
            network = fresh
            continue
        if "nodes" not in (written.get("status") or {}):
            raise OldCrd(
                "the server drops status.nodes: the CRD is older than the plugin",
                hint="apply the output of `ctrlhost crds --plugins bitcoin`",
            )
        return written
    raise AssertionError("the last try returns or raises")


def _overall(holder: Mapping[str, Any], fresh: Mapping[str, Verdict]) -> Verdict:
    """Judge the whole by the first part that is not True."""
    for type_ in PARTS:
        found = condition(holder, type_)
        if found and found.get("status") != "True":
            return Verdict(False, str(found.get("reason")), str(found.get("message")))
        if not found and type_ in fresh:
            return Verdict(None, "Unknown", f"{type_} is not known yet")
    # Without a fresh verdict, the last one about the mesh is about other nodes.
    return UP if MESH_CONVERGED in fresh else PENDING
