"""The controller: what wakes a network, and one pass over it in three stages: its objects, its nodes, its mesh."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import ctrlhost
from ctrlhost_bitcoin import status
from ctrlhost_bitcoin.mesh.nodes import Node, containers, is_ready, read_nodes
from ctrlhost_bitcoin.objects import names, ownership
from ctrlhost_bitcoin.objects.children import SERVICE, STATEFUL_SET, ChildKeeper, Children, Failed
from ctrlhost_bitcoin.objects.credentials import CredentialReader, Usable
from ctrlhost_bitcoin.objects.secrets import READS as SECRET_READS
from ctrlhost_bitcoin.objects.secrets import SECRET, PolledSecrets, watched_secret
from ctrlhost_bitcoin.objects.spec import NetworkSpec, Rejected, read_spec
from ctrlhost_bitcoin.status import Verdict, Wanted, condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctrlhost import Object
    from ctrlhost_bitcoin.mesh.memory import Memory, NetworkMemory
    from ctrlhost_bitcoin.mesh.mesh import Mesh, MeshReport
    from ctrlhost_bitcoin.settings import BitcoinSettings

NETWORK = (names.API_VERSION, names.KIND)
POD, EVENT = ("v1", "Pod"), ("v1", "Event")
_POD_READS = ("status.podIP", "status.phase", "status.conditions", "status.containerStatuses")
_EVENT_READS = ("involvedObject", "message", "lastTimestamp", "eventTime")
_ABOUT_INDEX = "about"
_OWNER_INDEX = "owner"
_OWNER_PATH = "metadata.ownerReferences[*].uid"
_SECRET_INDEX = "secret"
Network = dict[str, Any]


class Wiring:
    """Maps changes of objects to the networks that they concern."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        """Share the informer of networks, whose cache the predicates read."""
        self._plugin = plugin
        self._settings: BitcoinSettings = plugin.settings
        self._managed = None if self._settings.adopt else f"{names.MANAGED_BY_LABEL}={names.MANAGER}"
        self._networks = plugin.informer(names.API_VERSION, names.KIND)

    def sources(self) -> Iterator[ctrlhost.For | ctrlhost.Watches | ctrlhost.Every]:
        """Return the sources of the controller."""
        settings, changed = self._settings, ctrlhost.predicates.generation_changed
        yield ctrlhost.For(*NETWORK, predicates=[changed], indexes={_SECRET_INDEX: _by_secret})
        for kind in (SERVICE, STATEFUL_SET):
            yield ctrlhost.Watches(
                *kind, map=self.of_child, predicates=[self.child_matters], label_selector=self._managed
            )
        yield ctrlhost.Watches(
            *POD,
            map=self.of_pod,
            predicates=[pod_matters],
            label_selector=None if settings.adopt else names.NETWORK_LABEL,
            reads=_POD_READS,
            indexes={_OWNER_INDEX: _OWNER_PATH},
        )
        yield ctrlhost.Watches(
            *EVENT,
            map=self.of_event,
            field_selector="reason=FailedCreate,involvedObject.kind=StatefulSet",
            reads=_EVENT_READS,
            indexes={_ABOUT_INDEX: "involvedObject.uid"},
        )
        if settings.secret_access == "watch":
            yield ctrlhost.Watches(*SECRET, map=ctrlhost.ByIndex(_SECRET_INDEX), reads=SECRET_READS)
        if settings.resync > 0:
            yield ctrlhost.Every(settings.resync)

    def of_child(self, child: Object, caches: ctrlhost.Caches) -> Iterable[ctrlhost.Request]:
        """Return the network that controls a Service or StatefulSet, and the one that its name belongs to."""
        found = _controlling(child, caches[NETWORK])
        if found is not None:
            yield found
        name = names.network_of(child.name)
        if name is not None and caches[NETWORK].get(name) is not None:
            yield ctrlhost.Request(name, child.namespace)

    def child_matters(self, old: Object | None, new: Object | None) -> bool:
        """Return whether a change is to one of ours; a deleted object may have blocked a network's name."""
        if new is None:
            return True
        networks = self._networks.lister
        if _controlling(new, networks) is None and (old is None or _controlling(old, networks) is None):
            self._plugin.log.debug("%s %s/%s belongs to no network", new.kind, new.namespace, new.name)
            return False
        return True

    def of_pod(self, pod: Object, caches: ctrlhost.Caches) -> Iterable[ctrlhost.Request]:
        """Return the network that a pod's label names, or that controls the pod's controller."""
        name = pod.labels.get(names.NETWORK_LABEL)
        if name and caches[NETWORK].get(name) is not None:
            yield ctrlhost.Request(name, pod.namespace)
            return
        owner = pod.controller
        if owner is None or owner.kind != STATEFUL_SET[1]:
            return
        stateful_set = caches[STATEFUL_SET].get(owner.name)
        if stateful_set is not None and pod.is_controlled_by(stateful_set):
            found = _controlling(stateful_set, caches[NETWORK])
            if found is not None:
                yield found

    def of_event(self, event: Object, caches: ctrlhost.Caches) -> Iterable[ctrlhost.Request]:
        """Return the network of the StatefulSet whose pods cannot be created."""
        name = names.network_of(event.get_path("involvedObject", "name", default=""))
        if name is not None and caches[NETWORK].get(name) is not None:
            yield ctrlhost.Request(name, event.namespace)


class _Networks(Protocol):
    """A cache of networks."""

    def get(self, name: str, namespace: str, /) -> Object | None: ...


def _controlling(child: Object, networks: _Networks) -> ctrlhost.Request | None:
    """Return the network that controls a Service or StatefulSet."""
    owner = child.controller
    if owner is None or not ownership.is_network(owner.api_version, owner.kind):
        return None
    network = networks.get(owner.name, child.namespace)
    if network is None or not child.is_controlled_by(network):
        return None
    return ctrlhost.Request(network.name, child.namespace)


def pod_matters(old: Object | None, new: Object | None) -> bool:
    """Return whether a change of a pod can affect the mesh or the list of nodes."""
    return old is None or new is None or _relevant(old) != _relevant(new)


def _relevant(pod: Object) -> tuple[Any, ...]:
    return (
        pod.uid,
        pod.get_path("status", "podIP", default=""),
        is_ready(pod),
        pod.get_path("status", "phase", default=""),
        pod.deletion_timestamp is None,
        None if pod.controller is None else pod.controller.uid,
        pod.annotations.get(names.CREDENTIALS_ANNOTATION),
        pod.labels.get(names.NETWORK_LABEL),
        containers(pod),
    )


def _last_seen(event: Object) -> str:
    """Return when an event was last recorded; each of the two event APIs has its own field."""
    return str(event.get_path("lastTimestamp", default="") or event.get_path("eventTime", default="") or "")


def _by_secret(network: Object) -> Iterable[str]:
    secret = network.get_path("spec", "secret", default="")
    return (f"{network.namespace}/{secret}",) if secret else ()


@dataclass(slots=True)
class _Pass:
    """What one pass has found so far."""

    ctx: ctrlhost.Context
    spec: NetworkSpec
    memory: NetworkMemory
    #: The network when the pass began; its conditions decide which events are news.
    before: Network
    usable: Usable | None
    #: The verdict on the credentials before any daemon is asked.
    credentials: Verdict
    #: The warnings recorded in this pass.
    recorded: set[tuple[str, str, str]] = field(default_factory=set)


class Reconciler:
    """Reconciles networks; one per plugin."""

    def __init__(self, settings: BitcoinSettings, memory: Memory, mesh: Mesh, clock: ctrlhost.Clock) -> None:
        """Read credentials in the way that the settings choose."""
        self._settings, self._memory, self._mesh = settings, memory, mesh
        self._credentials = CredentialReader(
            watched_secret if settings.secret_access == "watch" else PolledSecrets(clock, settings.resync)
        )

    def __call__(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Reconcile one network."""
        if not request.namespace or "/" in request.name or "/" in request.namespace:
            ctx.log.warning("ignoring invalid key %r: it names no network", tuple(request))
            return None
        found = ctx.get(request)
        if found is None:
            self._memory.forget(request)
            return None
        if found.deletion_timestamp is not None:
            # The garbage collector removes the children; creating them again would only delay it.
            return None
        network = found.to_dict()
        memory = self._memory.of(request, found.uid)
        try:
            spec = read_spec(network, self._settings)
        except Rejected as rejected:
            self._reject(ctx, network, rejected)
            return None
        memory.desired = spec.nodes
        try:
            usable = self._credentials.read(ctx, spec.namespace, spec.secret)
        except Rejected as rejected:
            verdict = Verdict(False, rejected.reason, str(rejected))
            return self._run(_Pass(ctx, spec, memory, network, None, verdict))
        memory.credentials.use(usable)
        return self._run(_Pass(ctx, spec, memory, network, usable, Verdict(True, usable.reason, usable.message)))

    def _run(self, current: _Pass) -> ctrlhost.Result | None:
        ctx, spec, before = current.ctx, current.spec, current.before
        keeper = ChildKeeper(ctx, before, spec, adopt=self._settings.adopt, roll=self._settings.rotate == "roll")
        children = keeper.keep(current.usable.digest if current.usable is not None else None)
        nodes, replicas = self._nodes(current, children)
        current.memory.ready = sum(node.ready for node in nodes)
        wanted = Wanted(
            {
                status.RECONCILED: _reconciled(children, current),
                status.CREDENTIALS_READY: self._still_refused(current),
                status.NODES_READY: status.nodes_ready(nodes, spec.nodes, self._creation_failure(current, children)),
            },
            nodes,
            replicas,
        )
        meshes = children.failure is None and current.usable is not None and children.stateful_set is not None
        if children.failure is None and not meshes:
            wanted.verdicts[status.MESH_CONVERGED] = status.NOT_ASKED
        network: Network | None = before
        shown = (before.get("status") or {}).get("nodes")
        calls = meshes and any(node.ready for node in nodes)
        if not meshes or (calls and shown != [node.entry(spec.name) for node in nodes]):
            # Written before the calls, so that slow daemons do not delay the list of nodes.
            network = status.write(ctx, before, wanted)
        if network is None:
            return None
        self._warn_of_changes(current, wanted)
        if (failure := children.failure) is not None:
            # The server's own answer may say when to retry.
            raise (failure.__cause__ or failure) if isinstance(failure, Failed) else failure
        if meshes:
            return self._converge(current, network, nodes, wanted)
        # The daemons are not called now, so what is known of them becomes stale.
        current.memory.nodes = {}
        return None

    def _nodes(self, current: _Pass, children: Children) -> tuple[list[Node], int]:
        """Return the pods of our StatefulSet that are nodes, and the number of all its pods."""
        stateful_set = children.stateful_set
        if stateful_set is None or ownership.classify(stateful_set, current.before) != "ours":
            return [], 0
        uid, spec = stateful_set["metadata"]["uid"], current.spec
        owned = current.ctx.lister(*POD).by_index(_OWNER_INDEX, uid)
        pods = {pod.name: pod for pod in owned if pod.namespace == spec.namespace}
        return read_nodes(spec.name, spec.nodes, uid, pods), len(pods)

    def _creation_failure(self, current: _Pass, children: Children) -> str:
        """Return the newest reason why pods could not be created; empty if there is none."""
        if children.stateful_set is None:
            return ""
        found = current.ctx.lister(*EVENT).by_index(_ABOUT_INDEX, children.stateful_set["metadata"]["uid"])
        newest = max(found, key=_last_seen, default=None)
        return "" if newest is None else str(newest.get_path("message", default=""))

    def _still_refused(self, current: _Pass) -> Verdict:
        """Judge the credentials before the mesh: daemons that refused them still do while nothing changes."""
        before = condition(current.before, status.CREDENTIALS_READY)
        refused = any(state.reason == "Unauthorized" for state in current.memory.nodes.values())
        if current.usable is not None and refused and before.get("reason") == "Unauthorized":
            return Verdict(False, "Unauthorized", str(before.get("message")))
        return current.credentials

    def _converge(self, current: _Pass, network: Network, nodes: list[Node], wanted: Wanted) -> ctrlhost.Result | None:
        ctx, before = current.ctx, current.before
        report = self._mesh.converge(ctx, current.spec, nodes, current.memory)
        if report is None:
            return None
        wanted.verdicts[status.CREDENTIALS_READY] = status.credentials_refused(report) or current.credentials
        wanted.verdicts[status.MESH_CONVERGED] = verdict = status.mesh_converged(report, current.spec.nodes)
        self._warn_of_nodes(current, report)
        if status.write(ctx, network, wanted) is None:
            return None
        self._warn_of_changes(current, wanted)
        if verdict.reason == "Converged" != condition(before, status.MESH_CONVERGED).get("reason"):
            ctx.events.normal(before, "MeshConverged", f"{report.ready} ready nodes connected", action="Connect")
        return None if report.again is None else ctrlhost.Result(requeue_after=report.again)

    def _warn_of_changes(self, current: _Pass, wanted: Wanted) -> None:
        """Record events for conditions that changed for the worse."""
        for type_, reasons in (
            (status.RECONCILED, ("NameConflict",)),
            (status.CREDENTIALS_READY, ("SecretNotFound", "SecretInvalid", "DefaultCredentials")),
        ):
            now, before = wanted.verdicts[type_], condition(current.before, type_)
            if now.reason not in reasons:
                continue
            known = (before.get("reason"), before.get("message")) == (now.reason, now.message)
            if now.reason == "DefaultCredentials":
                # Repeated for each generation, to remind whoever edits the network.
                known = known and before.get("observedGeneration") == current.before["metadata"].get("generation")
            event = (type_, now.reason, now.message)
            if not known and event not in current.recorded:
                current.recorded.add(event)
                current.ctx.events.warning(current.before, now.reason, now.message, action="Reconcile")

    def _warn_of_nodes(self, current: _Pass, report: MeshReport) -> None:
        for node, reason in report.news:
            event = "RPCUnauthorized" if reason == "Unauthorized" else "NodeUnreachable"
            pod = current.ctx.lister(*POD).get(node.pod, current.spec.namespace)
            text = f"node {node.pod} ({node.ip}): {reason}"
            current.ctx.events.warning(current.before, event, text, action="Connect", related=pod)

    def _reject(self, ctx: ctrlhost.Context, network: Network, rejected: Rejected) -> None:
        """Report a network that cannot be created; only an edit can help."""
        wanted = Wanted({status.RECONCILED: Verdict(False, rejected.reason, str(rejected))})
        before = condition(network, status.RECONCILED)
        try:
            written = status.write(ctx, network, wanted)
        except ctrlhost.Invalid as error:
            # The server validates the whole object, including what a status write cannot change.
            ctx.log.warning("cannot write the status: %s", error)
            return
        if written is not None and (before.get("reason"), before.get("message")) != (rejected.reason, str(rejected)):
            ctx.events.warning(network, rejected.reason, str(rejected), action="Reconcile")


def _reconciled(children: Children, current: _Pass) -> Verdict:
    if children.conflicts:
        return Verdict(False, "NameConflict", "; ".join(children.conflicts))
    if children.failure is not None:
        failure = children.failure
        text = str(failure) if isinstance(failure, Failed) else f"request failed: {type(failure).__name__}"
        return Verdict(False, "ApiError", text)
    if children.terminating:
        return Verdict(
            False, "Terminating", f"being deleted, and created again after that: {', '.join(children.terminating)}"
        )
    if current.usable is None:
        return Verdict(False, "WaitingForSecret", f"the stateful set waits for secret {current.spec.secret}")
    return status.FINE
