"""The reconciler: one pass over one network, in three stages: its objects, its list of nodes, its mesh."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_bitcoin import verdicts
from ctrlhost_bitcoin.mesh.nodes import Node, read_nodes
from ctrlhost_bitcoin.objects import ownership
from ctrlhost_bitcoin.objects.children import ChildKeeper, Children, Failed
from ctrlhost_bitcoin.objects.credentials import CredentialReader, Unusable, Usable
from ctrlhost_bitcoin.objects.spec import Invalid, NetworkSpec, read_spec
from ctrlhost_bitcoin.status import Wanted, condition, write
from ctrlhost_bitcoin.verdicts import Verdict
from ctrlhost_bitcoin.wiring import OWNER_INDEX, POD

if TYPE_CHECKING:
    from ctrlhost_bitcoin.mesh.memory import Memory, NetworkMemory
    from ctrlhost_bitcoin.mesh.mesh import Mesh, MeshReport
    from ctrlhost_bitcoin.settings import BitcoinSettings

Network = dict[str, Any]


@dataclass(slots=True)
class _Pass:
    """What one pass has found so far."""

    ctx: ctrlhost.Context
    spec: NetworkSpec
    memory: NetworkMemory
    #: As it was when the pass began; what it said then decides what is news.
    before: Network
    usable: Usable | None = None
    refusal: Verdict | None = None
    #: What events were recorded in this pass.
    told: set[tuple[str, str, str]] = field(default_factory=set)

    def credentials(self) -> Verdict:
        """Judge the credentials, before any daemon was asked."""
        if self.usable is not None:
            return Verdict(True, self.usable.reason, self.usable.message)
        return self.refusal or Verdict(False, "SecretNotFound", "")


class Reconciler:
    """Reconciles networks; one for the plugin."""

    def __init__(self, settings: BitcoinSettings, memory: Memory, mesh: Mesh, credentials: CredentialReader) -> None:
        """Put the parts together."""
        self._settings, self._memory, self._mesh, self._credentials = settings, memory, mesh, credentials

    def __call__(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Bring one network into line."""
        if not request.namespace or "/" in request.name or "/" in request.namespace:
            ctx.log.warning("ignoring the key %r, which names no network", tuple(request))
            return None
        found = ctx.get(request)
        if found is None:
            self._memory.forget(request)
            return None
        if found.deletion_timestamp is not None:
            # What was made goes with it; making it anew would be in the garbage collector's way.
            return None
        network = found.to_dict()
        memory = self._memory.of(request, found.uid)
        try:
            spec = read_spec(network, self._settings)
        except Invalid as invalid:
            self._refuse(ctx, network, invalid)
            return None
        memory.desired = spec.nodes
        return self._run(_Pass(ctx, spec, memory, network))

    def _run(self, one: _Pass) -> ctrlhost.Result | None:
        ctx, spec = one.ctx, one.spec
        self._read_credentials(one)
        keeper = ChildKeeper(ctx, one.before, spec, adopt=self._settings.adopt, roll=self._settings.rotate == "roll")
        children = keeper.keep(one.usable.digest if one.usable is not None else None)
        nodes, replicas = self._nodes(one, children)
        one.memory.ready = sum(node.ready for node in nodes)
        wanted = Wanted(
            {
                verdicts.RECONCILED: _reconciled(children, one),
                verdicts.CREDENTIALS_READY: self._still_refused(one),
                verdicts.NODES_READY: verdicts.nodes_ready(nodes, spec.nodes),
            },
            nodes,
            replicas,
        )
        meshes = children.failure is None and one.usable is not None and children.stateful_set is not None
        if children.failure is None and not meshes:
            wanted.verdicts[verdicts.MESH_CONVERGED] = verdicts.NOT_LOOKED
        network: Network | None = one.before
        calls = meshes and any(node.ready for node in nodes)
        if not meshes or (calls and _shown(one.before) != [node.entry(spec.name) for node in nodes]):
            # Now, so that it shows who is ready while daemons keep us waiting.
            network = write(ctx, one.before, wanted)
        if network is None:
            return None
        self._tell(one, wanted)
        if children.failure is not None:
            raise _cause(children.failure)
        if not meshes:
            return self._without_mesh(one)
        return self._converge(one, network, nodes, wanted)

    def _read_credentials(self, one: _Pass) -> None:
        try:
            one.usable = self._credentials.read(one.ctx, one.spec.namespace, one.spec.secret)
        except Unusable as unusable:
            one.refusal = Verdict(False, unusable.reason, str(unusable))
        else:
            one.memory.credentials.use(one.usable)

    def _nodes(self, one: _Pass, children: Children) -> tuple[list[Node], int]:
        """Read the pods of our StatefulSet: those that are nodes, and how many there are in all."""
        stateful_set = children.stateful_set
        if stateful_set is None or ownership.whose(stateful_set, one.before) != "ours":
            return [], 0
        uid = stateful_set["metadata"]["uid"]
        pods = {
            pod.name: pod
            for pod in one.ctx.lister(*POD).by_index(OWNER_INDEX, uid)
            if pod.namespace == one.spec.namespace
        }
        return read_nodes(one.spec.name, one.spec.nodes, uid, pods.get), len(pods)

    def _still_refused(self, one: _Pass) -> Verdict:
        """Judge the credentials before the mesh: while nothing changed, daemons that refused them still do."""
        before = condition(one.before, verdicts.CREDENTIALS_READY)
        refused = any(state.reason == "Unauthorized" for state in one.memory.nodes.values())
        if one.usable is not None and refused and before.get("reason") == "Unauthorized":
            return Verdict(False, "Unauthorized", str(before.get("message")))
        return one.credentials()

    def _converge(self, one: _Pass, network: Network, nodes: list[Node], wanted: Wanted) -> ctrlhost.Result | None:
        ctx = one.ctx
        report = self._mesh.converge(ctx, one.spec, nodes, one.memory)
        if report.broken_off:
            return None
        wanted.verdicts[verdicts.CREDENTIALS_READY] = verdicts.credentials_refused(report) or one.credentials()
        wanted.verdicts[verdicts.MESH_CONVERGED] = verdicts.mesh_converged(report)
        self._tell_nodes(one, report)
        if write(ctx, network, wanted) is None:
            return None
        self._tell(one, wanted)
        before = condition(one.before, verdicts.MESH_CONVERGED)
        now = wanted.verdicts[verdicts.MESH_CONVERGED]
        if now.reason == "Converged" != before.get("reason"):
            ctx.events.normal(one.before, "MeshConverged", f"{report.ready} ready nodes connected", action="Connect")
        return None if report.again is None else ctrlhost.Result(requeue_after=report.again)

    def _without_mesh(self, one: _Pass) -> ctrlhost.Result | None:
        """Forget what was known of daemons that are not called now."""
        one.memory.nodes = {}
        return None

    def _tell(self, one: _Pass, wanted: Wanted) -> None:
        """Record events of what changed for the worse."""
        ctx = one.ctx
        for type_, reasons in (
            (verdicts.RECONCILED, ("NameConflict",)),
            (verdicts.CREDENTIALS_READY, ("SecretNotFound", "SecretInvalid", "DefaultCredentials")),
        ):
            now, before = wanted.verdicts[type_], condition(one.before, type_)
            if now.reason not in reasons:
                continue
            known = (before.get("reason"), before.get("message")) == (now.reason, now.message)
            if now.reason == "DefaultCredentials":
                # Once for each generation, as a reminder to whoever edits the network.
                known = known and before.get("observedGeneration") == one.before["metadata"].get("generation")
            if not known and (type_, now.reason, now.message) not in one.told:
                one.told.add((type_, now.reason, now.message))
                ctx.events.warning(one.before, now.reason, now.message, action="Reconcile")

    def _tell_nodes(self, one: _Pass, report: MeshReport) -> None:
        for node, reason in report.news:
            event = "RPCUnauthorized" if reason == "Unauthorized" else "NodeUnreachable"
            pod = one.ctx.lister(*POD).get(node.pod, one.spec.namespace)
            text = f"node {node.pod} ({node.ip}): {reason}"
            one.ctx.events.warning(one.before, event, text, action="Connect", related=pod)

    def _refuse(self, ctx: ctrlhost.Context, network: Network, invalid: Invalid) -> None:
        """Say what is wrong with a network that can not be made; only an edit can help."""
        wanted = Wanted({verdicts.RECONCILED: Verdict(False, invalid.reason, str(invalid))})
        before = condition(network, verdicts.RECONCILED)
        try:
            written = write(ctx, network, wanted)
        except ctrlhost.Invalid as error:
            # The server checks all of the object, also what a status can not change.
            ctx.log.warning("the status can not be written: %s", error)
            return
        if written is not None and (before.get("reason"), before.get("message")) != (invalid.reason, str(invalid)):
            ctx.events.warning(network, invalid.reason, str(invalid), action="Reconcile")


def _reconciled(children: Children, one: _Pass) -> Verdict:
    if children.conflicts:
        return Verdict(False, "NameConflict", "; ".join(children.conflicts))
    if children.failure is not None:
        failure = children.failure
        said = str(failure) if isinstance(failure, Failed) else f"the server did not help: {type(failure).__name__}"
        return Verdict(False, "ApiError", said)
    if one.usable is None:
        return Verdict(False, "WaitingForSecret", f"the stateful set waits for secret {one.spec.secret}")
    return verdicts.FINE


def _cause(failure: Exception) -> BaseException:
    """Give the server's own answer, which may say when to come back."""
    return failure.__cause__ or failure if isinstance(failure, Failed) else failure


def _shown(network: Network) -> Any:
    return (network.get("status") or {}).get("nodes")
