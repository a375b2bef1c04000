"""Ingresses and their classes, and the load balancer addresses of a status, which Services have too."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import is_subdomain, name_problem
from ctrlhost.sandbox.kinds.cells import NONE, created, first
from ctrlhost.sandbox.kinds.fields import immutable, port_causes
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.registry.operation import Operation

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_MODES = ("Proxy", "VIP")
_LEADING_ZERO = re.compile(r"(?<![0-9])0+(?=[0-9]+(\.|$))", re.ASCII)
_LONGEST_NAME = 253


class _Ingresses(BuiltinStrategy):
    """A new Ingress without a class gets the default one."""

    columns = "Class Hosts Address Ports Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec = obj.get("spec") or {}
        hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
        ports = "80, 443" if spec.get("tls") else "80"
        return (spec.get("ingressClassName") or NONE, first(hosts, "*"), ",".join(addresses(obj)), ports, created(obj))

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Set the default class as admission does: the newest one, unless a class is named."""
        if "ingressClassName" in obj["spec"] or CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
            return
        classes = [one.decode()["metadata"] for one in context.store.table("networking.k8s.io/ingressclasses").list()]
        defaults = [one for one in classes if (one.get("annotations") or {}).get(_DEFAULT) == "true"]
        if defaults:
            newest = max(one["creationTimestamp"] for one in defaults)
            obj["spec"]["ingressClassName"] = min(one["name"] for one in defaults if one["creationTimestamp"] == newest)

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the spec, that a new Ingress names one class, and a changed status."""
        yield from _spec_causes(obj)
        yield from address_causes(obj, old, operation.warnings)
        named, annotated = obj["spec"].get("ingressClassName"), obj["metadata"].get("annotations") or {}
        if old is None and CLASS_ANNOTATION in annotated and named and named != annotated[CLASS_ANNOTATION]:
            text = "must match `ingressClassName` when both are specified"
            yield status.invalid_value(f"annotations.{CLASS_ANNOTATION}", annotated[CLASS_ANNOTATION], text)
        elif old is None and CLASS_ANNOTATION in annotated:
            text = f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
            operation.warnings.append(text)
        if named and not is_subdomain(named):
            yield status.invalid_value("spec.ingressClassName", named, name_problem("subdomain", named))


class _IngressClasses(BuiltinStrategy):
    """The controller of a class is immutable."""

    defaults = (("spec.parameters.scope", "Cluster"),)
    columns = "Controller Parameters Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        found = (obj.get("spec") or {}).get("parameters")
        text = NONE
        if found:
            text = found["kind"] + (f".{found['apiGroup']}" if found.get("apiGroup") else "") + f"/{found['name']}"
        return ((obj.get("spec") or {}).get("controller", ""), text, created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        controller = (obj.get("spec") or {}).get("controller", "")
        prefix, slash, path = controller.partition("/")
        if not controller:
            yield status.required("spec.controller")
        elif not slash or not path or not is_subdomain(prefix):
            text = 'must be a domain-prefixed path (such as "acme.io/foo")'
            yield status.invalid_value("spec.controller", controller, text)
        yield from immutable(obj, old, "spec", "controller")


def _spec_causes(obj: Object) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    default = spec.get("defaultBackend")
    if not spec.get("rules") and default is None:
        yield status.invalid_value("spec", [], "either `defaultBackend` or `rules` must be specified")
    if default is not None:
        yield from _backend_causes(default, "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        host = rule.get("host", "")
        where = f"spec.rules[{index}]"
        if host and not is_subdomain(host.removeprefix("*.")):
            yield status.invalid_value(f"{where}.host", host, name_problem("subdomain", host))
        http = rule.get("http")
        if http is not None and not http.get("paths"):
            yield status.required(f"{where}.http.paths")
        for at, path in enumerate((http or {}).get("paths") or ()):
            yield from _path_causes(path, f"{where}.http.paths[{at}]")


def _path_causes(path: Mapping[str, Any], where: str) -> Iterator[Cause]:
    kind, text = path.get("pathType"), path.get("path", "")
    if not kind:
        yield status.required(f"{where}.pathType", "pathType must be specified")
    elif kind not in _PATH_TYPES:
        yield status.not_supported(f"{where}.pathType", kind, _PATH_TYPES)
    if (kind in ("Exact", "Prefix") or text) and not text.startswith("/"):
        yield status.invalid_value(f"{where}.path", text, "must be an absolute path")
    yield from _backend_causes(path.get("backend") or {}, f"{where}.backend")


def _backend_causes(backend: Mapping[str, Any], where: str) -> Iterator[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield status.invalid_value(where, "", "cannot set both resource and service backends")
    elif service is not None:
        yield from _service_causes(service, where)
    elif resource is not None:
        yield from [status.required(f"{where}.resource.{name}") for name in ("kind", "name") if not resource.get(name)]
    else:
        yield status.invalid_value(where, "", "resource or service backend is required")


def _service_causes(service: Mapping[str, Any], where: str) -> Iterator[Cause]:
    name, port = service.get("name", ""), service.get("port") or {}
    if not name:
        yield status.required(f"{where}.service.name")
    elif problem := name_problem("label", name):
        yield status.invalid_value(f"{where}.service.name", name, problem)
    if port.get("name") and port.get("number"):
        yield status.invalid_value(where, "", "cannot set both port name & port number")
    elif not port.get("name") and not port.get("number"):
        yield status.required(where, "port name or number is required")
    for member in ("name", "number"):
        if port.get(member):
            yield from port_causes(port[member], f"{where}.service.port.{member}")


def entries(obj: Object | None) -> list[dict[str, Any]]:
    """Return the load balancer addresses of an object's status."""
    found: list[dict[str, Any]] = (((obj or {}).get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return found


def addresses(obj: Object) -> list[str]:
    """Return the addresses as tables show them."""
    return [item.get("ip") or item.get("hostname") or "" for item in entries(obj)]


def address_causes(obj: Object, old: Object | None, warnings: list[str], *, modes: bool = False) -> Iterator[Cause]:
    """Check the addresses of a changed status; unchanged IPs are not checked.

    `modes` says that the kind has `ipMode`. Minor problems are added to `warnings`.
    """
    before = entries(old)
    if entries(obj) == before:
        return
    kept = {one.get("ip") for one in before}
    for index, one in enumerate(entries(obj)):
        field = f"status.loadBalancer.ingress[{index}]"
        ip, host, mode = one.get("ip", ""), one.get("hostname", ""), one.get("ipMode")
        if ip and ip not in kept:
            if problem := _ip_problem(ip):
                yield status.invalid_value(f"{field}.ip", ip, problem)
            elif ":" in ip and (canonical := str(ipaddress.ip_address(ip))) != ip:
                text = f'IPv6 address "{ip}" should be in RFC 5952 canonical format ("{canonical}")'
                warnings.append(f"{field}: {text}")
        if modes and mode is not None:
            if not ip:
                yield status.forbidden_field(f"{field}.ipMode", "may not be specified when `ip` is not set")
            elif mode not in _MODES:
                yield status.not_supported(f"{field}.ipMode", mode, _MODES)
        if host and (problem := _host_problem(host)):
            yield status.invalid_value(f"{field}.hostname", host, problem)


def _ip_problem(text: str) -> str:
    lenient = _LEADING_ZERO.sub("", text)
    try:
        address = ipaddress.ip_address("%" if "%" in text else lenient)
    except ValueError:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if lenient != text and "." in text:
        return "must not have leading 0s"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return "must not be an IPv4-mapped IPv6 address"
    return ""


def _host_problem(text: str) -> str:
    if len(text) > _LONGEST_NAME:
        return f"must be no more than {_LONGEST_NAME} characters"
    if problem := name_problem("subdomain", text):
        return problem
    return "must be a DNS name, not an IP address" if _ip_problem(text) in ("", "must not have leading 0s") else ""


STRATEGIES = {("networking.k8s.io", "Ingress"): _Ingresses(), ("networking.k8s.io", "IngressClass"): _IngressClasses()}
