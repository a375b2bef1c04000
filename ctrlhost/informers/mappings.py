"""Mappings from an object to the requests it causes, as data that the core runs without entering Python."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from ctrlhost.client import Client


@dataclass(frozen=True, slots=True)
class Owner:
    """Enqueue the owner of this kind, in whatever version of its group the owner reference names.

    With `controller` only the controlling owner counts, otherwise each owner of the kind. `cluster_scoped` says whether
    the owner has no namespace; None looks the kind up, in discovery if necessary, and assumes a namespace on failure.
    """

    api_version: str
    kind: str
    controller: bool = True
    cluster_scoped: bool | None = None


@dataclass(frozen=True, slots=True)
class ByLabel:
    """Enqueue the name in the label `name`, in the namespace that the label `namespace` names.

    Without `namespace` it is the object's own namespace; with `cluster_scoped` there is none. On an update the old
    labels count, too. An object without the labels enqueues nothing.
    """

    name: str
    _: KW_ONLY
    namespace: str | None = None
    cluster_scoped: bool = False


@dataclass(frozen=True, slots=True)
class ByIndex:
    """Enqueue the objects of `For`'s kind that their source's index has under the key of the one that changed.

    The key is `namespace/name`, or the name alone: `ByIndex("secret")` on a source of Secrets enqueues the objects
    whose index `secret` returns, for instance, `default/tls`.
    """

    index: str


def mapping_in_core(key: Any, client: Client) -> Any:
    """Return the core's form of an `Owner` or a `ByLabel`; a function, or "object", is returned unchanged."""
    if isinstance(key, ByLabel):
        return _core.ByLabel(key.name, namespace=key.namespace, cluster_scoped=key.cluster_scoped)
    if not isinstance(key, Owner):
        return key
    cluster_scoped = key.cluster_scoped
    if cluster_scoped is None:
        try:
            cluster_scoped = not client.resource(key.api_version, key.kind, timeout=5.0).namespaced
        except CtrlhostError:
            # Not served (yet), or no server: nearly all owners have a namespace.
            cluster_scoped = False
    return _core.Owner(key.api_version, key.kind, controller=key.controller, cluster_scoped=cluster_scoped)
