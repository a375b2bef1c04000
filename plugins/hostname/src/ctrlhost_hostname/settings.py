"""The plugin's settings, under the key names of upstream's operator."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ctrlhost import Duration
from ctrlhost_hostname.gateway import PROVIDERS, GatewayRoutes
from ctrlhost_hostname.ingress import IngressRoutes

Routes = IngressRoutes | GatewayRoutes
#: In the syntax of Go, as upstream reads it.
GoDuration = Annotated[str, msgspec.Meta(extra={"type": "duration"})]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]

_DURATIONS = (
    "prune_interval",
    "web_refresh_interval",
    "retry_delay",
    "ignore_list_age_limit",
    "resync_interval",
    "max_retry_delay",
    "gc_grace",
)


class HostnameSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Settings of the hostname controller; durations are strings in Go's syntax."""

    k8s_manifest_ns: Annotated[str, msgspec.Meta(min_length=1)] = "lease"
    """Namespace of ProviderHosts and Manifests."""

    prune_interval: GoDuration = "10m"
    """How often the ignore list is pruned."""

    web_refresh_interval: GoDuration = "5s"
    """How often changed pages are prepared."""

    retry_delay: GoDuration = "3s"
    """First delay before a failed hostname is retried."""

    event_failure_limit: NotNegative = 3
    """Counted failures that flag a lease; 0 means 1."""

    ignore_list_entry_limit: NotNegative = 131072
    """The ignore list is pruned when it has more leases."""

    ignore_list_age_limit: GoDuration = "726h"
    """Pruning first drops entries that are older."""

    rest_address: str = "127.0.0.1"
    """Host that the status pages listen on."""

    rest_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8080
    """Port of the status pages."""

    ingress_mode: str = "ingress"
    """`ingress`, or `gateway-api`."""

    gateway_name: str = "akash-gateway"
    """Name of the Gateway that routes are attached to."""

    gateway_namespace: str = "akash-gateway"
    """Namespace of that Gateway."""

    gateway_provider: str = "nginx"
    """Implementation of the Gateway; only `nginx` is supported."""

    # nginx reads the value as a part of its configuration.
    proxy_buffer_size: Annotated[str, msgspec.Meta(pattern=r"\A([1-9][0-9]*[kKmM]?)?\Z")] = "16k"
    """Buffer size that nginx gets in the Gateway API mode; an empty value omits it."""

    workers: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Hostnames that are reconciled in parallel."""

    resync_interval: GoDuration = "30m"
    """How often every hostname is reconciled without a change."""

    max_retry_delay: GoDuration = "5m"
    """Longest delay before a failed hostname is retried."""

    gc_orphans: bool = True
    """Whether routes found at start are removed once nobody claims them."""

    gc_grace: GoDuration = "60s"
    """How long a route found at start must stay unclaimed before it is removed."""

    removal_brake_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20
    """Part of the ProviderHosts that must vanish within a minute to stop removals; 0 never stops them."""

    ignore_list_forgive: Literal["manifest-change", "never"] = "manifest-change"
    """Whether a new or changed Manifest removes its lease from the ignore list."""

    bech32_prefix: str = "akash"
    """Prefix of owner and provider addresses."""

    def __post_init__(self) -> None:
        """Reject invalid durations and modes; the message names the key."""
        for field in _DURATIONS:
            key = field.replace("_", "-")
            try:
                positive = self.seconds(field) > 0
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from None
            if not positive:
                raise ValueError(f"{key} must be greater than zero, got `{getattr(self, field)}`")
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
        if self.gateway_provider not in PROVIDERS:
            supported = " ".join(PROVIDERS)
            raise ValueError(f"unknown gateway provider: {self.gateway_provider} (supported: [{supported}])")
        return GatewayRoutes(self.gateway_name, self.gateway_namespace, self.proxy_buffer_size)
