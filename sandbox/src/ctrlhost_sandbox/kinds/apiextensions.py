"""CustomResourceDefinitions; `controllers.crds` establishes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.objects import is_true
from ctrlhost_sandbox.crds import validation
from ctrlhost_sandbox.crds.conditions import FINALIZER, set_condition
from ctrlhost_sandbox.kinds.fields import immutable
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy
from ctrlhost_sandbox.kinds.webhooks import client_causes, version_causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation


class _Crds(BuiltinStrategy):
    """A CRD stays until its objects are deleted."""

    defaults = (("spec.conversion", {"strategy": "None"}),)
    columns = "Created_At:d"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj["metadata"].get("creationTimestamp"),)

    def default(self, obj: Object) -> None:
        names = obj["spec"].setdefault("names", {})
        if names.get("kind"):
            names["singular"] = names.get("singular") or names["kind"].lower()
            names["listKind"] = names.get("listKind") or f"{names['kind']}List"
        if (state := obj.get("status")) is not None:
            state.setdefault("conditions", None)
            state["storedVersions"] = state.get("storedVersions") or _storage_versions(obj)

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _storage_versions(obj),
        }
        validation.warn(obj, operation.warnings, enforced=context.options.cel == "enforce")

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        if operation.subresource:
            return
        stored = (obj.get("status") or {}).get("storedVersions") or []
        if added := [name for name in _storage_versions(obj) if name not in stored]:
            obj["status"] = {**(obj.get("status") or {}), "storedVersions": [*stored, *added]}
        validation.warn(obj, operation.warnings, old, enforced=context.options.cel == "enforce")

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the schema and the immutable fields: some of them once the CRD is established."""
        if operation.subresource == "status":
            yield from validation.status_causes(obj)
            return
        causes = [*validation.causes(obj, old), *_conversion_causes(obj["spec"].get("conversion") or {})]
        yield from causes
        if not causes and context.options.cel == "enforce":
            # Rules are checked with the types of a structural schema.
            yield from validation.rule_causes(obj)
        yield from validation.stored_version_causes(obj)
        if old is not None:
            fixed = [("group",), ("names", "plural")]
            if is_true(old, "Established"):
                fixed += [("scope",), ("names", "kind")]
            for path in fixed:
                yield from immutable(obj, old, "spec", *path)

    def begin_deletion(self, context: ServerContext, obj: Object) -> None:
        """Keep the CRD until its objects are deleted. It has no grace period."""
        del obj["metadata"]["deletionGracePeriodSeconds"]
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        set_condition(obj, "Terminating", "True", "InstanceDeletionPending", text)

    def holds_deletion(self, context: ServerContext, obj: Object) -> bool:
        return True


def _conversion_causes(conversion: Mapping[str, Any]) -> Iterator[Cause]:
    """Check the strategy, and that there is a webhook with the strategy `Webhook` only."""
    field, strategy, webhook = "spec.conversion", conversion.get("strategy", ""), conversion.get("webhook")
    if not strategy:
        yield status.required(f"{field}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield status.not_supported(f"{field}.strategy", strategy, ("None", "Webhook"))
    client, versions = (webhook or {}).get("clientConfig"), (webhook or {}).get("conversionReviewVersions") or []
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield status.forbidden_field(f"{field}.webhookClientConfig", text)
        if versions:
            yield status.forbidden_field(f"{field}.conversionReviewVersions", text)
        return
    if client is None:
        yield status.required(f"{field}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_causes(client, f"{field}.webhookClientConfig")
    yield from version_causes(versions, f"{field}.conversionReviewVersions")


def _storage_versions(obj: Object) -> list[str]:
    """Return the storage version, the first one if an invalid CRD has several."""
    return [version["name"] for version in obj["spec"].get("versions") or () if version.get("storage")][:1]


STRATEGIES = {("apiextensions.k8s.io", "CustomResourceDefinition"): _Crds()}
