"""The plugin's settings, under the key names that upstream's operator has."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import msgspec

from ctrlhost_hostname.gateway import PROVIDERS, GatewayRoutes
from ctrlhost_hostname.ingress import IngressRoutes

if TYPE_CHECKING:
    from ctrlhost_hostname.routes import Routes

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_DURATIONS = (
    "prune_interval",
    "web_refresh_interval",
    "retry_delay",
    "ignore_list_age_limit",
    "resync_interval",
    "max_retry_delay",
    "gc_grace",
)
_NOT_NEGATIVE = ("event_failure_limit", "ignore_list_entry_limit")


def parse_duration(text: str) -> float:
    """Read a duration as Go writes it, such as `1h30m` or `1.5s`, in seconds.

    Raises `ValueError` for a number without a unit, which upstream takes for nanoseconds, and for zero.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(
            f"invalid duration {text!r}: write a positive number with a unit (ns us ms s m h), as in 1h30m"
        )
    total = sum((Fraction(number) * _UNITS[unit] for number, unit in parts), Fraction())
    if total <= 0:
        raise ValueError(f"invalid duration {text!r}: must be greater than zero")
    return float(total)


class HostnameSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Settings of the hostname controller; durations are texts in Go's syntax."""

    k8s_manifest_ns: str = "lease"
    prune_interval: str = "10m"
    web_refresh_interval: str = "5s"
    retry_delay: str = "3s"
    event_failure_limit: int = 3
    ignore_list_entry_limit: int = 131072
    ignore_list_age_limit: str = "726h"
    rest_address: str = "0.0.0.0"  # noqa: S104 - upstream's default, since the provider asks from another pod
    rest_port: int = 8080
    ingress_mode: str = "ingress"
    gateway_name: str = "akash-gateway"
    gateway_namespace: str = "akash-gateway"
    gateway_provider: str = "nginx"
    proxy_buffer_size: str = "16k"
    workers: int = 4
    resync_interval: str = "30m"
    max_retry_delay: str = "5m"
    gc_orphans: bool = True
    gc_grace: str = "60s"
    ignore_list_forgive: Literal["manifest-change", "never"] = "manifest-change"
    bech32_prefix: str = "akash"

    def __post_init__(self) -> None:
        """Refuse what could never work; the message names the key."""
        for field in _DURATIONS:
            try:
                parse_duration(getattr(self, field))
            except ValueError as error:
                raise ValueError(f"{field.replace('_', '-')}: {error}") from None
        for field in _NOT_NEGATIVE:
            if getattr(self, field) < 0:
                raise ValueError(f"{field.replace('_', '-')} must not be negative")
        if self.workers < 1:
            raise ValueError("workers must be at least 1")
        if not 0 <= self.rest_port <= 65535:
            raise ValueError("rest-port must be from 0 to 65535")
        if not self.k8s_manifest_ns:
            raise ValueError("k8s-manifest-ns must not be empty")
        self.routes()

    def seconds(self, field: str) -> float:
        """Give a duration, named as the attribute, in seconds."""
        return parse_duration(getattr(self, field))

    @property
    def forgives(self) -> bool:
        """Whether another version of its Manifest takes a lease off the ignore list."""
        return self.ignore_list_forgive == "manifest-change"

    def routes(self) -> Routes:
        """Give the kind of route that is written; `ValueError` with upstream's text for a mode that can not work."""
        if self.ingress_mode == "ingress":
            return IngressRoutes()
        if self.ingress_mode != "gateway-api":
            raise ValueError(f'invalid ingress-mode "{self.ingress_mode}": must be "ingress" or "gateway-api"')
        for key, value in (("gateway-name", self.gateway_name), ("gateway-namespace", self.gateway_namespace)):
            if not value:
                raise ValueError(f"{key} is required when ingress-mode is gateway-api")
        provider = PROVIDERS.get(self.gateway_provider)
        if provider is None:
            supported = " ".join(sorted(PROVIDERS))
            raise ValueError(f"unknown gateway provider: {self.gateway_provider} (supported: [{supported}])")
        return GatewayRoutes(self.gateway_name, self.gateway_namespace, provider(self.proxy_buffer_size))
