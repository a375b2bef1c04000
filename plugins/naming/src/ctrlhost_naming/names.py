"""The names of a CustomResourceDefinition, and whether the API server arbitrates them itself."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost import Client


class Space(enum.Enum):
    """A name space of a group. A name of the one never conflicts with a name of the other."""

    RESOURCES = "R"
    """What stands in URLs and on kubectl's command line: plural, singular, short names."""
    KINDS = "K"
    """What stands in manifests: kind and list kind."""

    # Members are compared by identity, and hashed several times per name of every CRD.
    __hash__ = object.__hash__


class Field(enum.Enum):
    """A field of `spec.names` that is arbitrated: its name there, its space, and the reason of a conflict in it."""

    PLURAL = ("plural", Space.RESOURCES, "PluralConflict")
    SINGULAR = ("singular", Space.RESOURCES, "SingularConflict")
    SHORT_NAMES = ("shortName", Space.RESOURCES, "ShortNamesConflict")
    KIND = ("kind", Space.KINDS, "KindConflict")
    LIST_KIND = ("listKind", Space.KINDS, "ListKindConflict")

    def __init__(self, label: str, space: Space, reason: str) -> None:
        """Keep what messages call the field, the space its names are in, and the reason for NamesAccepted."""
        self.label = label
        self.space = space
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Names:
    """One set of names; what is missing is empty. Lists keep their order and their duplicates."""

    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None) -> Names:
        """Read `spec.names` or `status.acceptedNames`; a missing list and an empty one are the same."""
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
        """Give all six keys for a merge patch, null where there is nothing, so that what is dropped goes away.

        `plural` and `kind` are required by the API's schema, so they are sent as empty strings.
        """
        return {
            "plural": self.plural,
            "singular": self.singular or None,
            "shortNames": list(self.short_names) or None,
            "kind": self.kind,
            "listKind": self.list_kind or None,
            "categories": list(self.categories) or None,
        }

    def single(self, field: Field) -> str:
        """Give the name in a field that holds one name."""
        match field:
            case Field.PLURAL:
                return self.plural
            case Field.SINGULAR:
                return self.singular
            case Field.KIND:
                return self.kind
            case Field.LIST_KIND:
                return self.list_kind
            case Field.SHORT_NAMES:
                raise ValueError("short names are a list")

    def held(self) -> Iterator[tuple[Space, str]]:
        """Give every name with its space, an empty one never, one that stands twice perhaps twice."""
        for name in (self.plural, self.singular, *self.short_names):
            if name:
                yield Space.RESOURCES, name
        for name in (self.kind, self.list_kind):
            if name:
                yield Space.KINDS, name


HOOK = "start-apiextensions-controllers"
"""The start-up step that /readyz lists where the controllers of CustomResourceDefinitions run inside the server."""


def has_own_controller(client: Client) -> bool:
    """Ask the server; an answer that says nothing about it, such as a refusal, counts as no."""
    response = client.transport.request("GET", "/readyz", query={"verbose": "true"})
    return HOOK in response.body.decode("utf-8", "replace")
