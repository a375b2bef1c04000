"""The plugin's settings, under the key names of upstream's operator."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ctrlhost import Duration
from ctrlhost_hostname.gateway import PROVIDERS, GatewayRoutes
from ctrlhost_hostname.ingress import IngressRoutes

Routes = IngressRoutes | GatewayRoutes

_DURATIONS = (
    "prune_interval",
    "web_refresh_interval",
    "retry_delay",
    "ignore_list_age_limit",
    "resync_interval",
    "max_retry_delay",
    "gc_grace",
)
_SIZE = re.compile(r"[1-9][0-9]*[kKmM]?")
_NOT_NEGATIVE = ("event_failure_limit", "ignore_list_entry_limit")


class HostnameSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Settings of the hostname controller; durations are strings in Go's syntax."""

    k8s_manifest_ns: str = "lease"
    prune_interval: str = "10m"
    web_refresh_interval: str = "5s"
    retry_delay: str = "3s"
    event_failure_limit: int = 3
    ignore_list_entry_limit: int = 131072
    ignore_list_age_limit: str = "726h"
    rest_address: str = "127.0.0.1"
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
    removal_brake_percent: int = 20
    ignore_list_forgive: Literal["manifest-change", "never"] = "manifest-change"
    bech32_prefix: str = "akash"

    def __post_init__(self) -> None:
        """Reject invalid settings; the message names the key."""
        for field in _DURATIONS:
            try:
                positive = self.seconds(field) > 0
            except ValueError as error:
                raise ValueError(f"{field.replace('_', '-')}: {error}") from None
            if not positive:
                raise ValueError(f"{field.replace('_', '-')} must be greater than zero, got `{getattr(self, field)}`")
        for field in _NOT_NEGATIVE:
            if getattr(self, field) < 0:
                raise ValueError(f"{field.replace('_', '-')} must not be negative")
        if not 0 <= self.removal_brake_percent <= 100:
            raise ValueError("removal-brake-percent must be from 0 to 100")
        if self.workers < 1:
            raise ValueError("workers must be at least 1")
        if not 0 <= self.rest_port <= 65535:
            raise ValueError("rest-port must be from 0 to 65535")
        if self.proxy_buffer_size and not _SIZE.fullmatch(self.proxy_buffer_size):
            raise ValueError(f"proxy-buffer-size must be a size such as 16k, or empty, got {self.proxy_buffer_size!r}")
        if not self.k8s_manifest_ns:
            raise ValueError("k8s-manifest-ns must not be empty")
        self.routes()

    def seconds(self, field: str) -> float:
        """Return the duration in the named attribute, in seconds."""
        return float(Duration(getattr(self, field)))

    @property
    def forgives(self) -> bool:
        """Whether a changed Manifest removes its lease from the ignore list."""
        return self.ignore_list_forgive == "manifest-change"

    def routes(self) -> Routes:
        """Return the kind of route to write; raises `ValueError` with upstream's text for an invalid mode."""
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
