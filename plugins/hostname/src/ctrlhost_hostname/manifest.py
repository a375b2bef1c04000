"""Manifests: the services of a lease and their exposed ports."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec

from ctrlhost_hostname.errors import ManifestDecodeError, ResourceNotFoundError
from ctrlhost_hostname.lease import UINT16_MAX, UINT32_MAX, LeaseID

API_VERSION = "akash.network/v2beta2"
KIND = "Manifest"

# The only fields of a Manifest that are cached: no registry credentials, images or environment.
READS = (
    "spec.group.services[*].name",
    "spec.group.services[*].count",
    "spec.group.services[*].expose",
)

#: The words of nginx's `proxy_next_upstream`, and upstream's short forms of its status codes. nginx reads the value as
#: part of its configuration, so nothing else may reach it. The CRD lists the same words.
NextCase = Literal[
    "",
    "error",
    "timeout",
    "invalid_header",
    "non_idempotent",
    "off",
    "403",
    "404",
    "429",
    "500",
    "502",
    "503",
    "504",
    "http_403",
    "http_404",
    "http_429",
    "http_500",
    "http_502",
    "http_503",
    "http_504",
]
_NGINX_WORDS = {case: f"http_{case}" if case.isdigit() else case for case in get_args(NextCase)}

UInt16 = Annotated[int, msgspec.Meta(ge=0, le=UINT16_MAX)]
UInt32 = Annotated[int, msgspec.Meta(ge=0, le=UINT32_MAX)]


class HTTPOptions(msgspec.Struct, frozen=True):
    """How the proxy treats the requests of one exposed port; sizes in bytes, times in milliseconds."""

    max_body_size: UInt32 = 0
    read_timeout: UInt32 = 0
    send_timeout: UInt32 = 0
    next_tries: UInt32 = 0
    next_timeout: UInt32 = 0
    next_cases: tuple[NextCase, ...] = ()

    def or_defaults(self) -> HTTPOptions:
        """Return the effective options: without a body size, the defaults replace all of them."""
        return self if self.max_body_size else DEFAULT_HTTP_OPTIONS

    @property
    def next_upstream(self) -> str:
        """The cases in nginx's words; an empty case is skipped, an unknown one is a KeyError."""
        return " ".join(_NGINX_WORDS[case] for case in self.next_cases if case)


DEFAULT_HTTP_OPTIONS = HTTPOptions(
    max_body_size=1048576,
    read_timeout=60000,
    send_timeout=60000,
    next_tries=3,
    next_timeout=60000,
    next_cases=("error", "timeout"),
)


class Expose(msgspec.Struct, frozen=True):
    """One exposed port of a service."""

    port: UInt16 = 0
    external_port: UInt16 = 0
    proto: str = ""
    service: str = ""
    global_: bool = msgspec.field(default=False, name="global")
    hosts: tuple[str, ...] = ()
    http_options: HTTPOptions = HTTPOptions()
    ip: str = ""
    endpoint_sequence_number: UInt32 = 0

    @property
    def effective_external_port(self) -> int:
        """The external port; the container's own port if none is given."""
        return self.external_port or self.port


class Service(msgspec.Struct, frozen=True):
    """One service of a lease; with a count of 0 it does not exist."""

    name: str = ""
    count: UInt32 = 0
    expose: tuple[Expose, ...] = ()


class _Group(msgspec.Struct, frozen=True):
    services: tuple[Service, ...] = ()


class _Spec(msgspec.Struct, frozen=True):
    group: _Group = _Group()


# msgspec inspects a type on first use, which is not thread-safe.
msgspec.json.Decoder(_Spec)


def decode_services(spec: Mapping[str, Any] | None) -> tuple[Service, ...]:
    """Read the services of a Manifest's `spec`; raises `ManifestDecodeError` for a wrong type or range."""
    try:
        return msgspec.convert(_plain(spec or {}), _Spec).group.services
    except msgspec.ValidationError as error:
        raise ManifestDecodeError(f"cannot decode the manifest: {error}") from error


def fingerprint(uid: str, spec: Mapping[str, Any] | None) -> str:
    """Return the version of a Manifest's cached fields; a recreated Manifest has another one."""
    services = (_plain(spec or {}).get("group") or {}).get("services") or []
    kept = [
        {key: service.get(key) for key in ("name", "count", "expose")} if isinstance(service, dict) else service
        for service in services
    ]
    encoded = msgspec.json.encode(kept, order="deterministic")
    return f"{uid}/{hashlib.sha256(encoded).hexdigest()}"


def find_expose(services: Sequence[Service], lease: LeaseID, service_name: str, external_port: int) -> Expose:
    """Return the expose that a ProviderHost asks for; raises `ResourceNotFoundError` with upstream's text.

    This is the first global expose on the port, of the first service of that name. As in upstream the protocol is
    ignored, so a UDP expose that is listed earlier is chosen.
    """
    service = next((service for service in services if service.name == service_name), None)
    if service is None or service.count == 0:
        raise ResourceNotFoundError(f"service for {lease} - {service_name}")
    for expose in service.expose:
        if expose.global_ and expose.effective_external_port == external_port:
            if expose.port == 0:
                break
            return expose
    raise ResourceNotFoundError(f"service expose for {lease} - {service_name} - {external_port}")


def _plain(value: Any) -> Any:
    """Copy read-only views into plain containers; as in Go, a null is an absent field."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value
