"""The plugin's settings, under the names of upstream's flags."""

from __future__ import annotations

import math
import os
import re
from typing import Literal, NamedTuple

import msgspec

from ctrlhost import Duration
from ctrlhost_ingress_status.addresses import static_entries
from ctrlhost_ingress_status.classes import VENDOR_ANNOTATION, ClassRules

DEFAULT_SERVICE = "envoy"
DEFAULT_NAMESPACE = "projectcontour"
#: Set by a pod's manifest to the namespace that it runs in, like upstream's.
NAMESPACE_VARIABLE = "CONTOUR_NAMESPACE"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class ServiceRef(NamedTuple):
    """A Service to follow."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class IngressStatusSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The settings of the plugin; an empty text counts as unset."""

    ingress_status_address: str = ""
    """Addresses to publish, separated by commas; no Service is followed then."""

    envoy_service_name: str = ""
    """The Service to follow; default `envoy`."""

    envoy_service_namespace: str = ""
    """Its namespace; default `$CONTOUR_NAMESPACE`, else `projectcontour`."""

    envoy_services: tuple[str, ...] = ()
    """Several Services as `namespace/name` instead; their addresses are published in this order."""

    ingress_class_name: str | tuple[str, ...] = ""
    """The classes that are ours; default `contour` and Ingresses without a class."""

    class_mode: Literal["name", "controller"] = "name"
    """`controller` also takes the classes whose IngressClass object names `ingress-class-controller`."""

    ingress_class_controller: str = ""
    """The `spec.controller` of those objects."""

    match_unclassed_if_default: bool = False
    """Ingresses without a class are ours if one of those objects is the cluster's default."""

    vendor_annotation: str = VENDOR_ANNOTATION
    """The annotation that takes precedence over `kubernetes.io/ingress.class`."""

    on_empty: Literal["keep", "clear"] = "keep"
    """Whether published addresses stay when there are no longer any."""

    clear_grace: Duration = Duration("5m")
    """Time without an address after which `clear` removes them."""

    address_holdoff: Duration = Duration("1s")
    """Time for which an address must be stable before it is published."""

    address_holdoff_max: Duration = Duration("5s")
    """Time limit for holding off an address that keeps changing."""

    status_qps: float = 20.0
    """Status writes per second; 0 for no limit."""

    status_burst: int = 40
    """Status writes at once after a quiet period."""

    status_workers: int = 4
    """Status writes in flight at once."""

    write_method: Literal["patch", "update"] = "patch"
    """`update` for roles without `patch`."""

    watch_namespaces: tuple[str, ...] = ()
    """Namespaces whose Ingresses are watched; empty for all."""

    def __post_init__(self) -> None:
        """Reject settings that cannot work."""
        if self.ingress_status_address:
            try:
                static_entries(self.ingress_status_address)
            except ValueError as error:
                raise ValueError(f"ingress-status-address: {error}") from None
        if (self.class_mode == "controller") != bool(self.ingress_class_controller):
            raise ValueError("`class-mode: controller` and ingress-class-controller require each other")
        if self.match_unclassed_if_default and self.class_mode != "controller":
            raise ValueError("match-unclassed-if-default requires `class-mode: controller`")
        if not self.vendor_annotation.strip():
            raise ValueError("vendor-annotation must not be blank")
        if not 0 <= self.status_qps < math.inf or self.status_burst < 1 or self.status_workers < 1:
            raise ValueError(
                "status-qps must be finite and at least 0, status-burst and status-workers must be at least 1"
            )
        if self.address_holdoff_max < self.address_holdoff:
            raise ValueError("address-holdoff-max must not be less than address-holdoff")
        if any(not name for name in self._class_names()):
            raise ValueError("ingress-class-name must not have empty items")
        for ref in self.services():
            if not _NAME.fullmatch(ref.namespace) or not _NAME.fullmatch(ref.name):
                raise ValueError(f"invalid Service `{ref}`: must be `namespace/name`")

    @property
    def is_static(self) -> bool:
        """Whether the addresses are in the settings."""
        return bool(self.ingress_status_address)

    @property
    def ambiguous(self) -> bool:
        """Whether both addresses and a Service are set; the addresses take precedence."""
        service = self.envoy_service_name or self.envoy_service_namespace or self.envoy_services
        return self.is_static and bool(service)

    def services(self) -> tuple[ServiceRef, ...]:
        """Return the Services to follow, in the order in which their addresses are published."""
        if self.envoy_services:
            parts = [text.partition("/") for text in dict.fromkeys(self.envoy_services)]
            return tuple(ServiceRef(namespace.strip(), name.strip()) for namespace, _, name in parts)
        namespace = self.envoy_service_namespace or os.environ.get(NAMESPACE_VARIABLE) or DEFAULT_NAMESPACE
        return (ServiceRef(namespace, self.envoy_service_name or DEFAULT_SERVICE),)

    def class_rules(self) -> ClassRules:
        """Return the rules that decide which Ingresses are ours."""
        return ClassRules(self._class_names(), self.ingress_class_controller, self.match_unclassed_if_default)

    def _class_names(self) -> tuple[str, ...]:
        names = self.ingress_class_name
        if isinstance(names, str):
            return tuple(part.strip() for part in names.split(",")) if names else ()
        return tuple(name.strip() for name in names)
