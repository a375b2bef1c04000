"""How an object leads to its owner: the mapping that the core runs itself."""

from __future__ import annotations

from dataclasses import dataclass


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
