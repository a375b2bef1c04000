"""How an object leads to those that are to be reconciled, as data: the core runs these without entering Python."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass


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
