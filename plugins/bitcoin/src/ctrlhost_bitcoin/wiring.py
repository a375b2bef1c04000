"""What wakes a network: itself, its objects, its pods and its Secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_bitcoin.mesh.nodes import containers, is_ready
from ctrlhost_bitcoin.objects import names, ownership
from ctrlhost_bitcoin.objects.children import SERVICE, STATEFUL_SET
from ctrlhost_bitcoin.objects.secrets import READS as SECRET_READS
from ctrlhost_bitcoin.objects.secrets import SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctrlhost.cache import Object, OwnerReference
    from ctrlhost.sources import Source
    from ctrlhost_bitcoin.settings import BitcoinSettings

POD = ("v1", "Pod")
_POD_READS = ("status.podIP", "status.phase", "status.conditions", "status.containerStatuses")
#: The pods by what controls them.
OWNER_INDEX = "owner"
_OWNER_PATH = "metadata.ownerReferences[*].uid"
_SECRET_INDEX = "ctrlhost_bitcoin/by-secret"


class Wiring:
    """Turns changes of objects into the networks that they concern; called by the informers' threads."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        """Share in the informers whose caches tell who belongs to whom."""
        self._plugin = plugin
        self._settings: BitcoinSettings = plugin.settings
        self._networks = plugin.informer(names.API_VERSION, names.KIND)
        indexer: Any = self._networks.indexer
        indexer.add_indexers({_SECRET_INDEX: _by_secret})
        self._stateful_sets = plugin.informer(*STATEFUL_SET, label_selector=self._managed())

    def sources(self) -> Iterator[Source]:
        """Give the sources of the controller."""
        settings, changed = self._settings, ctrlhost.predicates.generation_changed
        yield ctrlhost.For(names.API_VERSION, names.KIND, predicates=[changed])
        for kind in (SERVICE, STATEFUL_SET):
            yield ctrlhost.Watches(
                *kind, map=self.of_child, predicates=[self.child_matters], label_selector=self._managed()
            )
        yield ctrlhost.Watches(
            *POD,
            map=self.of_pod,
            predicates=[pod_matters],
            label_selector=None if settings.adopt else names.NETWORK_LABEL,
            reads=_POD_READS,
            indexes={OWNER_INDEX: _OWNER_PATH},
        )
        if settings.secret_access == "watch":
            yield ctrlhost.Watches(*SECRET, map=self.of_secret, reads=SECRET_READS)
        if settings.resync > 0:
            yield ctrlhost.Every(settings.resync)

    def of_child(self, child: Object) -> Iterable[ctrlhost.Request]:
        """Give the network that controls a Service or StatefulSet, and the one whose it would be by its name."""
        found = self._controlling(child)
        if found is not None:
            yield found
        name = names.network_of(child.name)
        if name is not None and self._networks.lister.get(name, child.namespace) is not None:
            yield ctrlhost.Request(name, child.namespace)

    def child_matters(self, old: Object | None, new: Object | None) -> bool:
        """Say whether a change is to one of ours; what is gone may have been in somebody's way."""
        if new is None:
            return True
        if self._controlling(new) is None and (old is None or self._controlling(old) is None):
            self._plugin.log.debug("%s %s/%s belongs to no network", new.kind, new.namespace, new.name)
            return False
        return True

    def of_pod(self, pod: Object) -> Iterable[ctrlhost.Request]:
        """Give the network that a pod's label names, or that controls what controls the pod."""
        name = pod.labels.get(names.NETWORK_LABEL)
        if name and self._networks.lister.get(name, pod.namespace) is not None:
            yield ctrlhost.Request(name, pod.namespace)
            return
        owner = _controller(pod)
        if owner is None or owner.kind != STATEFUL_SET[1]:
            return
        stateful_set = self._stateful_sets.lister.get(owner.name, pod.namespace)
        if stateful_set is not None and stateful_set.uid == owner.uid:
            found = self._controlling(stateful_set)
            if found is not None:
                yield found

    def of_secret(self, secret: Object) -> Iterable[ctrlhost.Request]:
        """Give the networks of the same namespace that use a Secret."""
        indexer: Any = self._networks.indexer
        for key in indexer.index_keys(_SECRET_INDEX, f"{secret.namespace}/{secret.name}"):
            namespace, _, name = key.rpartition("/")
            yield ctrlhost.Request(name, namespace)

    def _controlling(self, child: Object) -> ctrlhost.Request | None:
        owner = _controller(child)
        if owner is None or not ownership.is_network({"apiVersion": owner.api_version, "kind": owner.kind}):
            return None
        network = self._networks.lister.get(owner.name, child.namespace)
        if network is None or network.uid != owner.uid:
            return None
        return ctrlhost.Request(owner.name, child.namespace)

    def _managed(self) -> str | None:
        return None if self._settings.adopt else f"{names.MANAGED_BY_LABEL}={names.MANAGER}"


def pod_matters(old: Object | None, new: Object | None) -> bool:
    """Say whether a change of a pod can have to do with the mesh or the list of nodes."""
    if old is None or new is None:
        return True
    return _seen(old) != _seen(new)


def _seen(pod: Object) -> tuple[Any, ...]:
    owner = _controller(pod)
    return (
        pod.uid,
        pod.get_path("status", "podIP", default=""),
        is_ready(pod),
        pod.get_path("status", "phase", default=""),
        pod.deletion_timestamp is None,
        owner.uid if owner is not None else None,
        pod.annotations.get(names.CREDENTIALS_ANNOTATION),
        pod.labels.get(names.NETWORK_LABEL),
        containers(pod),
    )


def _controller(obj: Object) -> OwnerReference | None:
    return next((each for each in obj.owner_references if each.controller), None)


def _by_secret(network: Object) -> Iterable[str]:
    secret = network.get_path("spec", "secret", default="")
    return (f"{network.namespace}/{secret}",) if secret else ()
