"""Mappings from an object to the requests it causes, as data that the core runs without entering Python."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True, slots=True)
class Owner:
    """Enqueue the owner of this kind, in any version of its group.

    With `controller` only the controlling owner counts, otherwise each owner of the kind. `cluster_scoped` means that
    the owner has no namespace; None asks the server. Until it serves the kind, the requests wait.
    """

    api_version: str
    kind: str
    controller: bool = True
    cluster_scoped: bool | None = None


@dataclass(frozen=True, slots=True)
class ByLabel:
    """Enqueue the object whose name is in the label `name` and whose namespace is in the label `namespace`.

    Without `namespace` it is the object's own namespace; with `cluster_scoped` there is none. On an update the old
    labels count, too. An object without the labels enqueues nothing.
    """

    name: str
    _: KW_ONLY
    namespace: str | None = None
    cluster_scoped: bool = False


@dataclass(frozen=True, slots=True)
class ByIndex:
    """Enqueue the objects of `For`'s kind that the index of that source has under the changed object's key.

    The key is `namespace/name`, or the name alone: for a changed Secret `default/tls`, `ByIndex("secret")` enqueues the
    objects for which the index `secret` of `For` returns `default/tls`.
    """

    index: str
