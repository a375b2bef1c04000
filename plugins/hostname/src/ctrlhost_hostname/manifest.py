"""Manifests: the services of a lease and their exposed ports."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

import ctrlhost
from ctrlhost_hostname.errors import ResourceNotFoundError
from ctrlhost_hostname.lease import UINT16_MAX, UINT32_MAX, LeaseID

#: The apiVersion and the kind.
MANIFEST = ("akash.network/v2beta2", "Manifest")
# The only fields of a Manifest that are cached: no registry credentials, images or environment.
READS = (
    "spec.group.services[*].name",
    "spec.group.services[*].count",
    "spec.group.services[*].expose",
)

#: The words of nginx's `proxy_next_upstream`, and upstream's short forms of its status codes. nginx reads the value as
#: part of its configuration, so nothing else may reach it. The CRD lists the same words.
# fmt: off
NextCase = Literal[
    "", "error", "timeout", "invalid_header", "non_idempotent", "off",
    "403", "404", "429", "500", "502", "503", "504",
    "http_403", "http_404", "http_429", "http_500", "http_502", "http_503", "http_504",
]
# fmt: on
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


DEFAULT_HTTP_OPTIONS = HTTPOptions(1048576, 60000, 60000, 3, 60000, ("error", "timeout"))


class Expose(msgspec.Struct, frozen=True):
    """One exposed port of a service; its protocol is ignored."""

    port: UInt16 = 0
    external_port: UInt16 = 0
    global_: bool = msgspec.field(default=False, name="global")
    http_options: HTTPOptions = HTTPOptions()


class Service(msgspec.Struct, frozen=True):
    """One service of a lease; with a count of 0 it does not exist."""

    name: str = ""
    count: UInt32 = 0
    expose: tuple[Expose, ...] = ()


class Group(msgspec.Struct, frozen=True):
    """The services of a lease."""

    services: tuple[Service, ...] = ()


class ManifestSpec(msgspec.Struct, frozen=True):
    """What a tenant deploys."""

    group: Group = Group()


@ctrlhost.resource(MANIFEST[0])
class Manifest(ctrlhost.Model[ManifestSpec, None]):
    """The services of a lease; named after the lease's namespace."""

    spec: ManifestSpec = ManifestSpec()

    def find_expose(self, lease: LeaseID, service_name: str, external_port: int) -> Expose:
        """Return the expose that a ProviderHost asks for; raises `ResourceNotFoundError` with upstream's text.

        This is the first global expose on the port, of the first service of that name; without an external port the
        container's own counts. As in upstream a UDP expose that is listed earlier is chosen.
        """
        service = next((service for service in self.spec.group.services if service.name == service_name), None)
        if service is None or service.count == 0:
            raise ResourceNotFoundError(f"service for {lease} - {service_name}")
        for expose in service.expose:
            if expose.global_ and (expose.external_port or expose.port) == external_port:
                if expose.port == 0:
                    break
                return expose
        raise ResourceNotFoundError(f"service expose for {lease} - {service_name} - {external_port}")
