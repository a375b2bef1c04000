"""What wakes a network besides its own changes: its objects, its pods, its Secret; and what it reads of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_bitcoin import credentials, objects
from ctrlhost_bitcoin.mesh.nodes import containers, is_ready, read_nodes
from ctrlhost_bitcoin.model import API_VERSION, KIND

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost import Caches, Object
    from ctrlhost_bitcoin.mesh.nodes import Node
    from ctrlhost_bitcoin.model import Network
    from ctrlhost_bitcoin.settings import BitcoinSettings

NETWORK = (API_VERSION, KIND)
POD, EVENT = "v1/Pod", "v1/Event"
_POD_READS = ("status.podIP", "status.phase", "status.conditions", "status.containerStatuses")
_EVENT_READS = ("involvedObject", "message", "lastTimestamp", "eventTime")
_MANAGED = ",".join(f"{name}={value}" for name, value in objects.MANAGED.items())


def owned(settings: BitcoinSettings) -> Sequence[ctrlhost.Owns]:
    """Return the kinds that are created; without `adopt`, only labelled objects are watched."""
    selector = None if settings.adopt else _MANAGED
    return [ctrlhost.Owns(kind, label_selector=selector) for kind in (objects.SERVICE, objects.STATEFUL_SET)]


def watched(settings: BitcoinSettings) -> Sequence[ctrlhost.Watches]:
    """Return the other kinds that are read."""
    watches = [
        ctrlhost.Watches(kind, map=of_name, label_selector=None if settings.adopt else _MANAGED)
        for kind in (objects.SERVICE, objects.STATEFUL_SET)
    ]
    watches += [
        ctrlhost.Watches(
            POD,
            map=of_pod,
            predicates=[pod_matters],
            label_selector=None if settings.adopt else objects.NETWORK_LABEL,
            reads=_POD_READS,
            indexes={"owner": "metadata.ownerReferences[*].uid"},
        ),
        ctrlhost.Watches(
            EVENT,
            map=of_event,
            field_selector="reason=FailedCreate,involvedObject.kind=StatefulSet",
            reads=_EVENT_READS,
            indexes={"about": "involvedObject.uid"},
        ),
    ]
    if settings.secret_access == "watch":
        watches.append(ctrlhost.Watches(credentials.SECRET, map=ctrlhost.ByIndex("secret"), reads=credentials.READS))
    return watches


def of_name(child: Object, caches: Caches) -> Iterable[ctrlhost.Request]:
    """Return the network whose name an object of others takes; it waits for the object's end, or adopts it."""
    is_ours = child.controller is not None and child.controller.kind == KIND
    return () if is_ours else _known(objects.network_of(child.name), child, caches)


def of_pod(pod: Object, caches: Caches) -> Iterable[ctrlhost.Request]:
    """Return the network that a pod's label names, or that controls the pod's controller."""
    name = pod.labels.get(objects.NETWORK_LABEL)
    if name is None and pod.controller is not None and pod.controller.kind == "StatefulSet":
        stateful_set = caches[objects.STATEFUL_SET].get(pod.controller.name)
        if stateful_set is not None and pod.is_controlled_by(stateful_set) and stateful_set.controller is not None:
            name = stateful_set.controller.name
    return _known(name, pod, caches)


def of_event(event: Object, caches: Caches) -> Iterable[ctrlhost.Request]:
    """Return the network of the StatefulSet whose pods cannot be created."""
    return _known(objects.network_of(event.get_path("involvedObject", "name", default="")), event, caches)


def _known(network: str | None, obj: Object, caches: Caches) -> Iterable[ctrlhost.Request]:
    return [ctrlhost.Request(network, obj.namespace)] if network and caches[NETWORK].get(network) is not None else []


def pod_matters(old: Object | None, new: Object | None) -> bool:
    """Return whether a change of a pod can affect the mesh or the list of nodes."""
    return old is None or new is None or _relevant(old) != _relevant(new)


def find_nodes(ctx: ctrlhost.Context, network: Network, stateful_set: Object | None) -> tuple[list[Node], int]:
    """Return the pods of the StatefulSet that are nodes, and the number of all its pods."""
    if stateful_set is None:
        return [], 0
    pods = {pod.name: pod for pod in ctx.cache(POD).by_index("owner", stateful_set.uid)}
    return read_nodes(network.name, network.nodes, stateful_set.uid, pods), len(pods)


def creation_failure(ctx: ctrlhost.Context, stateful_set: Object | None) -> str:
    """Return the newest reason why pods could not be created; empty if there is none."""
    if stateful_set is None:
        return ""
    newest = max(ctx.cache(EVENT).by_index("about", stateful_set.uid), key=_last_seen, default=None)
    return "" if newest is None else str(newest.get_path("message", default=""))


def _last_seen(event: Object) -> str:
    """Return when an event was last recorded; each of the two event APIs has its own field."""
    return str(event.get_path("lastTimestamp", default="") or event.get_path("eventTime", default="") or "")


def _relevant(pod: Object) -> tuple[Any, ...]:
    return (
        pod.uid,
        pod.get_path("status", "podIP", default=""),
        is_ready(pod),
        pod.get_path("status", "phase", default=""),
        pod.deletion_timestamp is None,
        None if pod.controller is None else pod.controller.uid,
        pod.annotations.get(objects.CREDENTIALS_ANNOTATION),
        pod.labels.get(objects.NETWORK_LABEL),
        containers(pod),
    )
