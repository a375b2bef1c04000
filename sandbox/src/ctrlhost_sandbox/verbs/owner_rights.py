"""The rights that references to owners need where OwnerReferencesPermissionEnforcement is enabled.

The sandbox does not refuse such references, as a kube-apiserver by default, but counts the rights as used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.http.messages import Attributes

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation


def note(context: ServerContext, operation: Operation, metadata: Object, before: Object | None) -> None:
    """Note the rights on the finalizers of owners whose deletion this write blocks; `before` is the old metadata."""
    authorizer, references = context.authorizer, metadata.get("ownerReferences")
    if authorizer is None or not references:
        return
    blocked = _blocked(before or {})
    for reference in references:
        if not reference.get("blockOwnerDeletion") or reference.get("uid") in blocked:
            continue
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        kind = context.registry.find_kind(group, version, reference.get("kind", ""))
        if kind is None:
            continue
        namespace = operation.namespace if kind.namespaced else ""
        name = reference.get("name", "")
        attributes = Attributes("update", "", group, version, kind.plural, "finalizers", namespace, name)
        if authorizer.authorize(operation.user, attributes).allowed:
            authorizer.note_use(operation.user, attributes)


def _blocked(metadata: Object) -> set[Any]:
    """Return the uids of the owners whose deletion is blocked already."""
    references = metadata.get("ownerReferences") or ()
    return {reference.get("uid") for reference in references if reference.get("blockOwnerDeletion")}
