"""The classes of Ingresses, and which of them are ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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


class ClassSpec(msgspec.Struct, frozen=True):
    """The spec of an IngressClass."""

    controller: str = ""


@ctrlhost.resource("networking.k8s.io/v1/IngressClass")
class IngressClass(msgspec.Struct, frozen=True):
    """The fields of an IngressClass that decide whose it is."""

    metadata: ctrlhost.ObjectMeta
    spec: ClassSpec = ClassSpec()


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
            mine = [class_.metadata for class_ in classes if class_.spec.controller == self.controller]
            ours.update(meta.name for meta in mine)
            if self.unclassed_if_default and any(meta.annotations.get(DEFAULT_ANNOTATION) == "true" for meta in mine):
                ours.add("")
        return frozenset(ours)
