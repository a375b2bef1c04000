"""The plugin's settings, under the names that upstream's flags have."""

from __future__ import annotations

import math
import os
import re
from typing import Literal, NamedTuple

import msgspec

from ctrlhost import Duration
from ctrlhost_ingress_status.classes import VENDOR_ANNOTATION, ClassRules
from ctrlhost_ingress_status.static import static_entries

DEFAULT_SERVICE = "envoy"
DEFAULT_NAMESPACE = "projectcontour"
#: Where a pod's manifest says which namespace it is in, as upstream's does.
NAMESPACE_VARIABLE = "CONTOUR_NAMESPACE"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class ServiceRef(NamedTuple):
    """Which Service to follow."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class IngressStatusSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What an operator may choose; an empty text is a setting that is not set."""

    ingress_status_address: str = ""
    """Addresses to publish, as a comma list; no Service is followed then."""

    envoy_service_name: str = ""
    """The Service to follow; `envoy` if not set."""

    envoy_service_namespace: str = ""
    """Its namespace; if not set `$CONTOUR_NAMESPACE`, else `projectcontour`."""

    envoy_services: tuple[str, ...] = ()
    """Several Services as `namespace/name`, instead of the one; their addresses are published in this order."""

    ingress_class_name: str | tuple[str, ...] = ""
    """The classes that are ours; if not set, `contour` and Ingresses without a class."""

    class_mode: Literal["name", "controller"] = "name"
    """`controller` also takes the classes whose IngressClass object names `ingress-class-controller`."""

    ingress_class_controller: str = ""
    """What those objects have in `spec.controller`."""

    match_unclassed_if_default: bool = False
    """Take Ingresses without a class, if one of those objects is the cluster's default."""

    vendor_annotation: str = VENDOR_ANNOTATION
    """The annotation that comes before `kubernetes.io/ingress.class`."""

    on_empty: Literal["keep", "clear"] = "keep"
    """What becomes of published addresses once there is none any more."""

    clear_grace: Duration = Duration("5m")
    """How long there must have been none before `clear` clears."""

    address_holdoff: Duration = Duration("1s")
    """How long an address must stand before it is published."""

    address_holdoff_max: Duration = Duration("5s")
    """How long one that keeps changing is held off at most."""

    status_qps: float = 20.0
    """Status writes per second; 0 for no limit."""

    status_burst: int = 40
    """How many of them may go out at once, after a rest."""

    status_workers: int = 4
    """How many are under way at once."""

    write_method: Literal["patch", "update"] = "patch"
    """`update` for clusters whose role has no `patch`."""

    watch_namespaces: tuple[str, ...] = ()
    """Namespaces to look for Ingresses in; none means all."""

    def __post_init__(self) -> None:
        """Refuse what can never work, all at once where there may be several."""
        if self.ingress_status_address:
            try:
                static_entries(self.ingress_status_address)
            except ValueError as error:
                raise ValueError(f"ingress-status-address: {error}") from None
        if (self.class_mode == "controller") != bool(self.ingress_class_controller):
            raise ValueError("`class-mode: controller` and `ingress-class-controller` go together")
        if self.match_unclassed_if_default and self.class_mode != "controller":
            raise ValueError("`match-unclassed-if-default` has a meaning in `class-mode: controller` only")
        if not self.vendor_annotation.strip():
            raise ValueError("vendor-annotation must not be blank")
        if not 0 <= self.status_qps < math.inf or self.status_burst < 1 or self.status_workers < 1:
            raise ValueError(
                "status-qps must be a number from 0 on, status-burst and status-workers must be at least 1"
            )
        if self.address_holdoff_max < self.address_holdoff:
            raise ValueError("address-holdoff-max must not be less than address-holdoff")
        if any(not name for name in self._class_names()):
            raise ValueError("ingress-class-name has an empty item")
        for ref in self.services():
            if not _NAME.fullmatch(ref.namespace) or not _NAME.fullmatch(ref.name):
                raise ValueError(f"`{ref}` does not name a Service: it takes a namespace and a name")

    @property
    def is_static(self) -> bool:
        """Whether the addresses stand in the settings."""
        return bool(self.ingress_status_address)

    @property
    def ambiguous(self) -> bool:
        """Whether both addresses and a Service were given; the addresses win."""
        service = self.envoy_service_name or self.envoy_service_namespace or self.envoy_services
        return self.is_static and bool(service)

    def services(self) -> tuple[ServiceRef, ...]:
        """Give the Services to follow, in the order in which their addresses are published."""
        if self.envoy_services:
            parted = [text.partition("/") for text in dict.fromkeys(self.envoy_services)]
            return tuple(ServiceRef(namespace.strip(), name.strip()) for namespace, _, name in parted)
        namespace = self.envoy_service_namespace or os.environ.get(NAMESPACE_VARIABLE) or DEFAULT_NAMESPACE
        return (ServiceRef(namespace, self.envoy_service_name or DEFAULT_SERVICE),)

    def class_rules(self) -> ClassRules:
        """Give what decides which Ingresses are ours."""
        return ClassRules(self._class_names(), self.ingress_class_controller, self.match_unclassed_if_default)

    def _class_names(self) -> tuple[str, ...]:
        given = self.ingress_class_name
        if isinstance(given, str):
            return tuple(part.strip() for part in given.split(",")) if given else ()
        return tuple(name.strip() for name in given)
