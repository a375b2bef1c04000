"""Mappings from an object to requests as the core knows them, which then never enter Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.errors import CtrlhostError
from ctrlhost.informers.mappings import ByLabel
from ctrlhost.informers.owner import Owner

if TYPE_CHECKING:
    from ctrlhost.client import Client


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
