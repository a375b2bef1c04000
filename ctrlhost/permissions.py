"""Permissions of a plugin, from which RBAC rules are generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Permission:
    """The permission to use `verbs` on `resources` (plurals, `deployments/status` for a subresource) of one API group.

    `group` is empty for the core group. `resource_names` restricts it to objects of these names. It becomes part of a
    Role in `namespace`, or of a ClusterRole if that is None. TypeError for a string in place of a sequence.
    """

    group: str
    resources: Sequence[str]
    verbs: Sequence[str]
    resource_names: Sequence[str] = ()
    namespace: str | None = None

    def __post_init__(self) -> None:
        """Raise TypeError for a bare string in place of a sequence, which would be read letter by letter."""
        for field in ("resources", "verbs", "resource_names"):
            value = getattr(self, field)
            if isinstance(value, str):
                raise TypeError(f"Permission.{field} must be a sequence of strings, not the string {value!r}")
            object.__setattr__(self, field, tuple(value))

    def rule(self) -> dict[str, list[str]]:
        """Return the `rules` entry of a Role or ClusterRole."""
        rule = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        if self.resource_names:
            rule["resourceNames"] = list(self.resource_names)
        return rule
