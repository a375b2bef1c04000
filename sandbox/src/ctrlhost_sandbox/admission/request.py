"""A write as admission sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause, Failure
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.registry.registry import Kind

MOST_STEPS = 100_000_000
"""The steps of all expressions for one request: each policy may have many bindings and parameters."""
CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}


@dataclass(slots=True)
class Request:
    """An operation with the object that it writes (None for a deletion) and the one before (None for a creation)."""

    operation: Operation
    action: str
    """`CREATE`, `UPDATE` or `DELETE`."""
    obj: Object | None
    old: Object | None
    steps: int = MOST_STEPS
    """The steps that expressions may still take."""

    @property
    def name(self) -> str:
        """The name of the object; empty if the server generates it."""
        return self.operation.name or str(((self.obj or {}).get("metadata") or {}).get("name", ""))

    @property
    def namespace(self) -> str:
        """The namespace; that of a namespace is itself."""
        return self.name if self.operation.kind.table == "namespaces" else self.operation.namespace

    @property
    def subresource(self) -> str:
        """The sub-resource, if the request is for one."""
        return self.operation.subresource

    def forbidden(self, why: str, causes: Sequence[Cause] = ()) -> Failure:
        """Return the 403 of a refusal."""
        metadata = (self.obj or {}).get("metadata") or {}
        name = self.name or metadata.get("generateName") or "Unknown"
        return status.forbidden(self.operation.kind.plural, self.operation.kind.group, name, why, causes)

    def served(self, obj: Object | None, kind: Kind) -> Object | None:
        """Return an object in the version of a kind of its table."""
        own = self.operation.kind
        if obj is None or kind is own:
            return obj
        if kind.custom is not None and kind.custom.converter is not None and obj.get("apiVersion") == own.api_version:
            (converted,) = kind.custom.converter.convert([obj], kind.api_version)
            return converted
        return {**obj, "apiVersion": kind.api_version}

    def described(self, kind: Kind) -> dict[str, Any]:
        """Return the request as expressions and webhooks see it that were matched by `kind`."""
        operation, own = self.operation, self.operation.kind
        name = (self.obj or self.old or {}).get("kind", own.kind) if self.subresource else kind.kind
        described: dict[str, Any] = {
            "kind": {"group": kind.group, "version": kind.version, "kind": name},
            "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
            "requestKind": {"group": own.group, "version": own.version, "kind": name},
            "requestResource": {"group": own.group, "version": own.version, "resource": own.plural},
            "name": self.name,
            "operation": self.action,
            "userInfo": operation.user.as_dict(),
            "dryRun": operation.dry_run,
            "options": {"kind": _OPTIONS[self.action], "apiVersion": "meta.k8s.io/v1"},
        }
        if self.subresource:
            described |= {"subResource": self.subresource, "requestSubResource": self.subresource}
        if self.namespace:
            described["namespace"] = self.namespace
        for option in ("fieldManager", "fieldValidation"):
            if text := operation.query.first(option):
                described["options"][option] = text
        if operation.dry_run:
            described["options"]["dryRun"] = ["All"]
        return described
