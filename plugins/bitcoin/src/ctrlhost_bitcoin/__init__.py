"""Runs private regtest networks of bitcoin daemons, a ctrlhost plugin.

A BitcoinNetwork sets the number of daemons. The plugin creates the StatefulSet that runs them and, over JSON-RPC, adds
to each daemon the addresses of its peers as soon as it is ready.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_bitcoin import objects, sources, status
from ctrlhost_bitcoin.model import API_VERSION, KIND, BitcoinNetwork, Rejected, check_name, completed
from ctrlhost_bitcoin.settings import BitcoinSettings
from ctrlhost_bitcoin.status import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost_bitcoin.credentials import Usable
    from ctrlhost_bitcoin.mesh.mesh import MeshReport
    from ctrlhost_bitcoin.mesh.node_state import NetworkMemory
    from ctrlhost_bitcoin.model import Network
    from ctrlhost_bitcoin.parts import Parts

__all__ = ["BitcoinSettings", "plugin"]

Context = ctrlhost.Context[ctrlhost.Object, BitcoinSettings]
#: The reasons of conditions that are recorded as events, once per generation.
_REPORTED = ("DefaultCredentials", "InvalidName", "InvalidSpec", "NameConflict", "SecretInvalid", "SecretNotFound")

plugin = ctrlhost.Plugin(settings=BitcoinSettings)


@plugin.setup
def set_up(host: ctrlhost.PluginContext) -> Parts:
    """Return what lives as long as the host: the client of the daemons, and what is known of each network."""
    # Imported here, so that reading settings and permissions stays cheap.
    from ctrlhost_bitcoin.parts import Parts

    return Parts(host)


@plugin.stopping
def stop(host: ctrlhost.PluginContext) -> None:
    """Stop starting calls to daemons; those in flight end by themselves."""
    host.state.close()


@plugin.permission
def permissions(settings: BitcoinSettings) -> Iterable[ctrlhost.Permission]:
    """Return the right to fetch Secrets one by one, if they are not watched."""
    if settings.secret_access == "get":
        yield ctrlhost.Permission("", ["secrets"], ["get"], resource_names=settings.secret_names)


@plugin.index(BitcoinNetwork)
def secret(network: BitcoinNetwork) -> Iterable[str]:
    """Index networks by their Secret, whose changes wake them."""
    return [f"{network.metadata.namespace}/{network.spec.secret}"] if network.spec.secret else []


# Not the struct: a network from before a rule of its schema gets a condition, and not only an event.
@plugin.controller(
    (API_VERSION, KIND),
    name="bitcoin",
    owns=sources.owned,
    watches=sources.watched,
    every=lambda settings: settings.resync or None,
    workers=lambda settings: settings.workers,
    gone=True,
    shard_by="namespace",
)
def reconcile(ctx: Context, network: ctrlhost.Object | None) -> ctrlhost.Result | None:
    """Keep the objects of a network, list its nodes, and connect them."""
    if network is None:
        ctx.log.debug("%s names no network", ctx.request)
        ctx.state.memory.forget(ctx.request)
        return None
    if network.deletion_timestamp is not None:
        # The garbage collector deletes the children; creating them again would only delay it.
        return None
    try:
        wanted = _read(ctx, network)
    except Rejected as rejected:
        # Only an edit can help.
        _show(ctx, {status.RECONCILED: Verdict(False, rejected.reason, str(rejected))})
        try:
            ctx.write_status()
        except ctrlhost.Invalid as error:
            # The server validates the whole object, including what a status write cannot change.
            raise ctrlhost.TerminalError(f"cannot write the status: {error}") from error
        return None
    memory = ctx.state.memory.of(ctx.request, network.uid)
    memory.desired = wanted.nodes
    usable, credible = _credentials(ctx, wanted, memory)
    children = _keep_children(ctx, wanted, usable)
    nodes, replicas = sources.find_nodes(ctx, wanted, children.stateful_set)
    failure = sources.creation_failure(ctx, children.stateful_set)
    memory.ready = sum(node.ready for node in nodes)
    verdicts = {
        status.RECONCILED: children.verdict(wanted, usable),
        status.CREDENTIALS_READY: credible,
        status.NODES_READY: status.nodes_ready(nodes, wanted.nodes, failure),
    }
    if children.failure is not None:
        status.show_nodes(ctx, nodes, replicas)
        _show(ctx, verdicts)
        raise children.failure
    if usable is None or children.stateful_set is None:
        # The daemons are not called now, so what is known of them becomes stale.
        memory.nodes = {}
        status.show_nodes(ctx, nodes, replicas)
        _show(ctx, verdicts | {status.MESH_CONVERGED: status.NOT_ASKED})
        return None
    entries = ctrlhost.plain(network.get_path("status", "nodes", default=()))
    if any(node.ready for node in nodes) and list(entries) != [node.entry(network.name) for node in nodes]:
        # Written before the calls, so that slow daemons do not delay the list of nodes.
        status.show_nodes(ctx, nodes, replicas)
        _show(ctx, verdicts)
        ctx.write_status()
    report = ctx.state.mesh.converge(ctx, wanted, nodes, memory)
    if report is None:
        return None
    _warn_of_nodes(ctx, report)
    accepted = Verdict(True, usable.reason, usable.message)
    verdicts[status.CREDENTIALS_READY] = status.credentials_refused(report) or accepted
    verdicts[status.MESH_CONVERGED] = meshed = status.mesh_converged(report, wanted.nodes)
    status.show_nodes(ctx, nodes, replicas)
    _show(ctx, verdicts)
    if meshed.reason == "Converged" != status.condition(network, status.MESH_CONVERGED).get("reason"):
        ctx.event("MeshConverged", f"{report.ready} ready nodes connected", action="Connect")
    return None if report.again is None else ctrlhost.Result(requeue_after=report.again)


def _read(ctx: Context, network: ctrlhost.Object) -> Network:
    """Return the network that an object describes; `Rejected` for one that its schema would refuse by now."""
    check_name(network.name)
    try:
        model = ctx.cache(BitcoinNetwork).get(network.name)
    except ctrlhost.InvalidObject as error:
        raise Rejected("InvalidSpec", error.problem) from None
    if model is None:
        raise ctrlhost.NotFound(f"{network.name} is gone")
    return completed(model, ctx.settings)


def _credentials(ctx: Context, network: Network, memory: NetworkMemory) -> tuple[Usable | None, Verdict]:
    """Return the credentials of a network, None if there are no usable ones, and the verdict on them."""
    try:
        usable = ctx.state.credentials.read(ctx, network.namespace, network.secret)
    except Rejected as rejected:
        return None, Verdict(False, rejected.reason, str(rejected))
    memory.credentials.use(usable)
    before = status.condition(ctx.object, status.CREDENTIALS_READY)
    refused = any(state.reason == "Unauthorized" for state in memory.nodes.values())
    if refused and before.get("reason") == "Unauthorized":
        # Daemons that refused them still do while nothing changes.
        return usable, Verdict(False, "Unauthorized", str(before.get("message")))
    return usable, Verdict(True, usable.reason, usable.message)


@dataclass(slots=True)
class Children:
    """The outcome of one pass over Service and StatefulSet."""

    #: The live StatefulSet, as far as it is the network's.
    stateful_set: ctrlhost.Object | None = None
    conflicts: list[str] = field(default_factory=list)
    #: Children that are being deleted, which are left alone until they are gone.
    terminating: list[str] = field(default_factory=list)
    #: The first failure; the caller raises it after the rest of its work.
    failure: ctrlhost.CtrlhostError | None = None
    problem: str = ""

    def verdict(self, network: Network, usable: Usable | None) -> Verdict:
        """Judge both."""
        if self.conflicts:
            return Verdict(False, "NameConflict", "; ".join(self.conflicts))
        if self.failure is not None:
            return Verdict(False, "ApiError", self.problem)
        if self.terminating:
            names = ", ".join(self.terminating)
            return Verdict(False, "Terminating", f"being deleted, and created again after that: {names}")
        if usable is None:
            return Verdict(False, "WaitingForSecret", f"the stateful set waits for secret {network.secret}")
        return status.FINE


def _keep_children(ctx: Context, network: Network, usable: Usable | None) -> Children:
    """Apply both, independently of each other; without credentials the StatefulSet stays as it is."""
    children = Children()
    live = ctx.cache(objects.STATEFUL_SET).get(f"{network.name}-sts")
    service = ctx.cache(objects.SERVICE).get(f"{network.name}-svc")
    _keep(ctx, network, objects.service(network, live), service, children)
    if live is not None and live.is_controlled_by(ctx.object):
        children.stateful_set = live
    if usable is not None:
        roll = ctx.settings.rotate == "roll"
        wanted = objects.stateful_set(network, usable.digest, live, roll=roll)
        kept = _keep(ctx, network, wanted, live, children)
        children.stateful_set = kept or children.stateful_set
        before, after = objects.digest_of(live), objects.digest_of(kept)
        if before is not None and after not in (None, before):
            ctx.event("CredentialsRotated", "credentials changed, restarting nodes", action="Rotate")
    return children


def _keep(
    ctx: Context, network: Network, wanted: dict[str, Any], live: ctrlhost.Object | None, children: Children
) -> ctrlhost.Object | None:
    """Return the object as it is now, None if it is not the network's or not known; note what prevented it."""
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    if live is not None and live.deletion_timestamp is not None and live.is_controlled_by(ctx.object):
        children.terminating.append(f"{kind} {name}")
        return live
    adopt = live is not None and ctx.settings.adopt and objects.may_adopt(network, live)
    try:
        try:
            return ctx.ensure(wanted, adopt=adopt)
        except ctrlhost.Invalid:
            if live is None:
                raise
            patch = objects.replacement(wanted)
            ctx.client.patch(wanted["apiVersion"], kind, name, network.namespace, patch, type="strategic")
            ctx.event("Repaired", f"replaced ports and probes of {kind} {network.namespace}/{name}", action="Patch")
            return ctx.ensure(wanted, adopt=adopt)
    except ctrlhost.NotOwned as conflict:
        children.conflicts.append(conflict.message)
    except ctrlhost.CtrlhostError as error:
        problem = f"request failed: {type(error).__name__}"
        if isinstance(error, ctrlhost.ApiError):
            verb = "create" if live is None else "update"
            problem = f"could not {verb} {kind} {name}: {error.reason}"
            action = verb.capitalize()
            ctx.event(f"{action}Failed", f"{problem}: {error.message}", warning=True, action=action)
        if children.failure is None:
            children.failure, children.problem = error, problem
    return None


def _show(ctx: Context, verdicts: dict[str, Verdict]) -> None:
    """Set the conditions, and record those that a user must know of."""
    status.show(ctx, verdicts)
    for verdict in verdicts.values():
        if verdict.reason in _REPORTED:
            ctx.event(verdict.reason, verdict.message, warning=True, action="Reconcile", once=True)


def _warn_of_nodes(ctx: Context, report: MeshReport) -> None:
    """Record the failures of daemons; each is new."""
    for node, reason in report.news:
        event = "RPCUnauthorized" if reason == "Unauthorized" else "NodeUnreachable"
        note, pod = f"node {node.pod} ({node.ip}): {reason}", ctx.cache(sources.POD).get(node.pod)
        # With the pod, so that each has an Event of its own.
        ctx.events.warning(ctx.object, event, note, action="Connect", related=pod)
