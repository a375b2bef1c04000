"""The names of a CustomResourceDefinition, and whether the API server arbitrates them itself."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost import Client

HOOK = "start-apiextensions-controllers"
"""The start-up step in /readyz of a server that runs the controllers of CustomResourceDefinitions."""


class Space(enum.Enum):
    """A name space of a group. Names in different spaces never conflict."""

    RESOURCES = "R"
    """Plural, singular and short names, as used in URLs and by kubectl."""
    KINDS = "K"
    """Kind and list kind, as used in manifests."""

    # Members are compared by identity, and hashed several times per name of every CRD.
    __hash__ = object.__hash__


class Field(enum.Enum):
    """A field of `spec.names` that is arbitrated."""

    PLURAL = ("plural", Space.RESOURCES, "PluralConflict", "plural")
    SINGULAR = ("singular", Space.RESOURCES, "SingularConflict", "singular")
    SHORT_NAMES = ("shortName", Space.RESOURCES, "ShortNamesConflict", "short_names")
    KIND = ("kind", Space.KINDS, "KindConflict", "kind")
    LIST_KIND = ("listKind", Space.KINDS, "ListKindConflict", "list_kind")

    def __init__(self, label: str, space: Space, reason: str, attribute: str) -> None:
        """Set the word for messages, the name space, the reason of a conflict, and the attribute of `Names`."""
        self.label = label
        self.space = space
        self.reason = reason
        self.attribute = attribute


@dataclass(frozen=True, slots=True)
class Names:
    """The names in `spec.names` or `status.acceptedNames`; missing ones are empty. Lists keep order and duplicates."""

    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None) -> Names:
        """Read the API's form; a missing list equals an empty one."""
        raw = raw or {}
        return cls(
            plural=raw.get("plural") or "",
            singular=raw.get("singular") or "",
            kind=raw.get("kind") or "",
            list_kind=raw.get("listKind") or "",
            short_names=tuple(raw.get("shortNames") or ()),
            categories=tuple(raw.get("categories") or ()),
        )

    def to_merge_patch(self) -> dict[str, Any]:
        """Return all six keys for a merge patch, with null for empty ones, so that dropped names are removed.

        The API's schema requires `plural` and `kind`, so they are sent as empty strings.
        """
        return {
            "plural": self.plural,
            "singular": self.singular or None,
            "shortNames": list(self.short_names) or None,
            "kind": self.kind,
            "listKind": self.list_kind or None,
            "categories": list(self.categories) or None,
        }

    def in_field(self, field: Field) -> tuple[str, ...]:
        """Return the names in a field, without empty ones."""
        value: str | tuple[str, ...] = getattr(self, field.attribute)
        return tuple(filter(None, (value,) if isinstance(value, str) else value))

    def held(self) -> Iterator[tuple[Space, str]]:
        """Iterate over all names with their spaces; duplicates are possible."""
        for field in Field:
            for name in self.in_field(field):
                yield field.space, name


def has_own_controller(client: Client) -> bool:
    """Return whether the API server has a naming controller, as every kube-apiserver has; a refusal counts as no."""
    response = client.transport.request("GET", "/readyz", query={"verbose": "true"})
    return HOOK in response.body.decode("utf-8", "replace")
