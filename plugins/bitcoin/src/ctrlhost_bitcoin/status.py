"""The conditions of a network, judged from the outcome of a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlhost_bitcoin import objects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import ctrlhost
    from ctrlhost_bitcoin.mesh.mesh import MeshReport
    from ctrlhost_bitcoin.mesh.nodes import Node

RECONCILED = "Reconciled"
CREDENTIALS_READY = "CredentialsReady"
NODES_READY = "NodesReady"
MESH_CONVERGED = "MeshConverged"
READY = "Ready"
#: In the order of their precedence for `Ready`.
_PARTS = (RECONCILED, CREDENTIALS_READY, NODES_READY, MESH_CONVERGED)
_MAX_NAMED = 5


class Verdict(NamedTuple):
    """The content of a condition, the same for the same situation; `status` None is Unknown."""

    status: bool | None
    reason: str
    message: str


FINE = Verdict(True, "Reconciled", "service and stateful set are up to date")
NOT_ASKED = Verdict(None, "Unknown", "the nodes were not asked for their peers")
_PENDING = Verdict(False, "Converging", "nodes came or went, and are asked for their peers next")
_UP = Verdict(True, "Ready", "network is up")


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
        return Verdict(False, "Unauthorized", f"{_listed(report.unauthorized)}: wrong credentials")
    if report.unreachable:
        return Verdict(False, "NodeUnreachable", f"{_listed(report.unreachable)}: no useful answer")
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
    return Verdict(False, "Unauthorized", f"{_listed(report.unauthorized)}: the credentials are not accepted")


def condition(network: ctrlhost.Object, type_: str) -> Mapping[str, Any]:
    """Return a condition of a network; an empty one where it has none."""
    conditions = network.get_path("status", "conditions", default=())
    return next((condition for condition in conditions if condition.get("type") == type_), {})


def show(ctx: ctrlhost.Context, verdicts: Mapping[str, Verdict]) -> None:
    """Set the conditions; one without a verdict stays as it is, and `Ready` follows from all."""
    for type_, verdict in verdicts.items():
        ctx.status.condition(type_, *verdict)
    ctx.status.condition(READY, *_overall(ctx.object, verdicts))


def show_nodes(ctx: ctrlhost.Context, nodes: Sequence[Node], replicas: int) -> None:
    """Set the list of nodes, and what the scale subresource reads."""
    name = ctx.object.name
    ctx.status.set(
        nodes=[node.entry(name) for node in nodes],
        replicas=replicas,
        readyReplicas=sum(node.ready for node in nodes),
        selector=",".join(f"{key}={value}" for key, value in objects.selector(name).items()),
    )


def _overall(network: ctrlhost.Object, fresh: Mapping[str, Verdict]) -> Verdict:
    """Judge the whole by the first part that is not True."""
    for type_ in _PARTS:
        known = condition(network, type_)
        verdict = fresh.get(type_)
        if verdict is None and known:
            verdict = Verdict(known.get("status") == "True", str(known.get("reason")), str(known.get("message")))
        if verdict is not None and not verdict.status:
            return verdict._replace(status=False)
    # Without a fresh verdict, the last one about the mesh is about other nodes.
    return _UP if MESH_CONVERGED in fresh else _PENDING


def _listed(pods: Sequence[str]) -> str:
    """Name the first pods and count the others."""
    named, more = ", ".join(pods[:_MAX_NAMED]), len(pods) - _MAX_NAMED
    return f"{named} and {more} more" if more > 0 else named
