"""How an object leads to those that are to be reconciled, as data: the core runs these without entering Python."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from ctrlhost.client import Client


@dataclass(frozen=True, slots=True)
class Owner:
    """Enqueue the owner of this kind, in whatever version of its group the reference names.

    With `controller` only the owner that controls the object counts, else each owner of the kind. `cluster_scoped` says
    that the owner has no namespace; None finds it out from the kind.
    """

    api_version: str
    kind: str
    controller: bool = True
    cluster_scoped: bool | None = None


@dataclass(frozen=True, slots=True)
class ByLabel:
    """Enqueue what the label `name` names: in the object's own namespace, in the one that the label `namespace` names,
    or in none with `cluster_scoped`.

    On an update the old labels count, too. Without the labels nothing is enqueued.
    """

    name: str
    _: KW_ONLY
    namespace: str | None = None
    cluster_scoped: bool = False


@dataclass(frozen=True, slots=True)
class ByIndex:
    """Enqueue the objects of `For`'s kind that their source's index has under the key of the one that changed.

    The key is `namespace/name`, or the name alone: `ByIndex("secret")` on a source of Secrets wakes those whose index
    `secret` gives, for instance, `default/tls`.
    """

    index: str


def mapping_in_core(key: Any, client: Client) -> Any:
    """Give the core's counterpart of an `Owner` or a `ByLabel`; a function, and "object", stay what they are."""
    if isinstance(key, Owner):
        return _owner(key, client)
    if isinstance(key, ByLabel):
        return _core.ByLabel(key.name, namespace=key.namespace, cluster_scoped=key.cluster_scoped)
    return key


def _owner(owner: Owner, client: Client) -> _core.Owner:
    """Give the owner as the core knows it, which wants to be told whether it has a namespace."""
    cluster_scoped = owner.cluster_scoped
    if cluster_scoped is None:
        try:
            cluster_scoped = not client.resource(owner.api_version, owner.kind, timeout=5.0).namespaced
        except CtrlhostError:
            # Not served (yet), or no server: nearly all owners have a namespace.
            cluster_scoped = False
    return _core.Owner(owner.api_version, owner.kind, controller=owner.controller, cluster_scoped=cluster_scoped)
