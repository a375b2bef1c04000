"""A CustomResourceDefinition as far as its names are concerned, and its two conditions about them."""

# ruff: noqa: N815 - fields are named as on the wire

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import msgspec

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES_ACCEPTED = "NamesAccepted"
ESTABLISHED = "Established"


class Space(enum.Enum):
    """A name space of a group. Names in different spaces never conflict."""

    RESOURCES = "R"
    """Plural, singular and short names, as used in URLs and by kubectl."""
    KINDS = "K"
    """Kind and list kind, as used in manifests."""


class Field(enum.Enum):
    """A field of `spec.names` that is arbitrated; its value is the field's name."""

    PLURAL = ("plural", Space.RESOURCES, "PluralConflict")
    SINGULAR = ("singular", Space.RESOURCES, "SingularConflict")
    SHORT_NAMES = ("shortNames", Space.RESOURCES, "ShortNamesConflict")
    KIND = ("kind", Space.KINDS, "KindConflict")
    LIST_KIND = ("listKind", Space.KINDS, "ListKindConflict")

    def __init__(self, attribute: str, space: Space, reason: str) -> None:
        """Set the attribute of `Names`, the name space, and the reason of a conflict."""
        self.attribute = attribute
        self.space = space
        self.reason = reason
        #: The word for messages.
        self.label = attribute.removesuffix("s")
        #: The indexes of the CRDs by the names that they request, and by those that are accepted for them.
        self.requested, self.accepted = f"requested {attribute}", f"accepted {attribute}"


class Names(msgspec.Struct, frozen=True):
    """The names in `spec.names` or `status.acceptedNames`; missing ones are empty. Lists keep order and duplicates."""

    plural: str = ""
    singular: str = ""
    kind: str = ""
    listKind: str = ""
    shortNames: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def in_field(self, field: Field) -> tuple[str, ...]:
        """Return the names in a field, without empty ones."""
        value: str | tuple[str, ...] = getattr(self, field.attribute)
        return tuple(filter(None, (value,) if isinstance(value, str) else value))

    def held(self) -> Iterator[tuple[Space, str]]:
        """Iterate over all names with their spaces, each once."""
        yield from dict.fromkeys((field.space, name) for field in Field for name in self.in_field(field))

    def to_status(self) -> dict[str, Any]:
        """Return the value of `status.acceptedNames`, whose schema requires `plural` and `kind`."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value or name in _REQUIRED}


_REQUIRED = ("plural", "kind")


class Condition(msgspec.Struct, frozen=True):
    """A condition without its times."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""

    @property
    def is_true(self) -> bool:
        """Whether the condition is True."""
        return self.status == "True"


NO_CONFLICTS = Condition(NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found")
NOT_ACCEPTED = Condition(ESTABLISHED, "False", "NotAccepted", "not all names are accepted")
INSTALLING = Condition(ESTABLISHED, "False", "Installing", "the initial names have been accepted")
INITIAL_NAMES_ACCEPTED = Condition(ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted")
INVALID_CA_BUNDLE = Condition(ESTABLISHED, "False", "InvalidCABundle", "The conversion webhook CABundle is invalid")


class Spec(msgspec.Struct, frozen=True):
    """What the author of a CRD requests."""

    group: str
    names: Names = Names()
    conversion: dict[str, Any] | None = None


class Status(msgspec.Struct, frozen=True):
    """What the controllers of CRDs have decided."""

    acceptedNames: Names = Names()
    conditions: tuple[Condition, ...] | None = ()


KIND = "apiextensions.k8s.io/v1/CustomResourceDefinition"


@ctrlhost.resource(KIND)
class Crd(msgspec.Struct, frozen=True):
    """The names of one CustomResourceDefinition and the conditions that concern them."""

    metadata: ctrlhost.ObjectMeta
    spec: Spec
    status: Status = Status()

    @property
    def name(self) -> str:
        """The object's name, `plural.group`."""
        return self.metadata.name

    @property
    def group(self) -> str:
        """The API group."""
        return self.spec.group

    @property
    def requested(self) -> Names:
        """The names that the author wants."""
        return self.spec.names

    @property
    def accepted(self) -> Names:
        """The names that are in force."""
        return self.status.acceptedNames

    @property
    def satisfied(self) -> bool:
        """Whether the CRD has every requested name, whatever the condition says."""
        return self.requested == self.accepted

    @property
    def is_named(self) -> bool:
        """Whether the CRD has every requested name, and says so."""
        return self.satisfied and self.names_accepted is not None and self.names_accepted.is_true

    @property
    def names_accepted(self) -> Condition | None:
        """The first condition NamesAccepted."""
        return self._condition(NAMES_ACCEPTED)

    @property
    def established(self) -> Condition | None:
        """The first condition Established."""
        return self._condition(ESTABLISHED)

    def _condition(self, type_: str) -> Condition | None:
        return next((condition for condition in self.status.conditions or () if condition.type == type_), None)


#: What is cached of each CRD. Its schemas, which may be a megabyte, are left out.
CRDS = ctrlhost.For(
    Crd,
    reads=("spec.group", "spec.names", "spec.conversion", "status"),
    indexes={
        index: f"{path}.{field.attribute}{'[*]' if field is Field.SHORT_NAMES else ''}"
        for field in Field
        for index, path in ((field.requested, "spec.names"), (field.accepted, "status.acceptedNames"))
    },
)


def group_of(key: str) -> str:
    """Return the part of a CRD's name after the first dot, empty if there is none."""
    return key.partition(".")[2]


def find(crds: ctrlhost.Cache[ctrlhost.Object], group: str, space: Space, name: str, *, accepted: bool) -> set[str]:
    """Return the CRDs of a group that request a name in one of its spaces, or for which it is accepted."""
    indexes = [field.accepted if accepted else field.requested for field in Field if field.space is space]
    keys = {crd.name for index in indexes for crd in crds.by_index(index, name)}
    return {key for key in keys if group_of(key) == group}
