"""A write as admission sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery import status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause, Failure
    from ctrlhost_sandbox.registry.operation import Operation

MOST_STEPS = 100_000_000
"""The steps of all expressions for one request: each policy may have many bindings and parameters."""
CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"


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
