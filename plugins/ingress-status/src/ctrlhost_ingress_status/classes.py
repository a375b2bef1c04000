"""The classes of Ingresses, and which of them are ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctrlhost import Object

VENDOR_ANNOTATION = "projectcontour.io/ingress.class"
LEGACY_ANNOTATION = "kubernetes.io/ingress.class"
DEFAULT_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"
#: Ours without configured classes, beside Ingresses without a class.
DEFAULT_CLASS = "contour"


def effective_class(annotations: Mapping[str, str], field: str | None, vendor: str = VENDOR_ANNOTATION) -> str:
    """Return an Ingress's class: the first annotation that is present, unless it is empty; else the field."""
    for key in (vendor, LEGACY_ANNOTATION):
        if key in annotations:
            return annotations[key] or field or ""
    return field or ""


@dataclass(frozen=True, slots=True)
class IngressClass:
    """The fields of an IngressClass that decide whose it is."""

    name: str
    controller: str
    default: bool = False

    @classmethod
    def of(cls, obj: Object) -> IngressClass:
        """Read an object."""
        controller = obj.get_path("spec", "controller", default="")
        return cls(obj.name, str(controller), obj.annotations.get(DEFAULT_ANNOTATION) == "true")


@dataclass(frozen=True, slots=True)
class ClassRules:
    """The settings about classes. With an empty `controller`, IngressClass objects are ignored."""

    names: Sequence[str] = ()
    controller: str = ""
    unclassed_if_default: bool = False

    def ours(self, classes: Iterable[IngressClass] = ()) -> frozenset[str]:
        """Return the effective classes that are ours; `""` stands for Ingresses without a class."""
        ours = set(self.names) if self.names else {"", DEFAULT_CLASS}
        if self.controller:
            mine = [one for one in classes if one.controller == self.controller]
            ours.update(one.name for one in mine)
            if self.unclassed_if_default and any(one.default for one in mine):
                ours.add("")
        return frozenset(ours)
