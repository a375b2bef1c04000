"""Ingresses and their classes, and the load balancer addresses of a status, which Services have too."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import is_subdomain, name_problems
from ctrlhost_sandbox.kinds.cells import NONE, created, first
from ctrlhost_sandbox.kinds.fields import immutable, port_causes
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_MODES = ("Proxy", "VIP")
_LEADING_ZERO = re.compile(r"(?<![0-9])0+(?=[0-9]+(\.|$))", re.ASCII)
_LONGEST_NAME, _LONGEST_CONTROLLER = 253, 250
_LEADING = "must not have leading 0s"
_REFUSED_PARTS, _REFUSED_ENDS = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com')"
)


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
        classes = [
            entry.decode()["metadata"] for entry in context.store.table("networking.k8s.io/ingressclasses").list()
        ]
        defaults = [class_ for class_ in classes if (class_.get("annotations") or {}).get(_DEFAULT) == "true"]
        if defaults:
            newest = max(candidate["creationTimestamp"] for candidate in defaults)
            obj["spec"]["ingressClassName"] = min(
                candidate["name"] for candidate in defaults if candidate["creationTimestamp"] == newest
            )

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check the spec, that a new Ingress names one class, and a changed status."""
        yield from address_causes(obj, old, operation.warnings)
        if operation.subresource:
            return
        yield from _spec_causes(obj)
        named, annotated = obj["spec"].get("ingressClassName"), obj["metadata"].get("annotations") or {}
        if old is None and CLASS_ANNOTATION in annotated and named and named != annotated[CLASS_ANNOTATION]:
            text = "must match `ingressClassName` when both are specified"
            yield status.invalid_value(f"annotations.{CLASS_ANNOTATION}", annotated[CLASS_ANNOTATION], text)
        elif old is None and CLASS_ANNOTATION in annotated:
            text = f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
            operation.warnings.append(text)
        if named is not None and not is_subdomain(named):
            yield from status.invalid_values("spec.ingressClassName", named, name_problems("subdomain", named))


class _IngressClasses(BuiltinStrategy):
    """The controller of a class is immutable."""

    columns = "Controller Parameters Age"

    def default(self, obj: Object) -> None:
        """Parameters are of the cluster unless they say otherwise."""
        if (reference := (obj.get("spec") or {}).get("parameters")) is not None:
            reference.setdefault("scope", "Cluster")

    def cells(self, obj: Object) -> Sequence[Any]:
        parameters = (obj.get("spec") or {}).get("parameters")
        text = NONE
        if parameters:
            text = (
                parameters["kind"]
                + (f".{parameters['apiGroup']}" if parameters.get("apiGroup") else "")
                + f"/{parameters['name']}"
            )
        return ((obj.get("spec") or {}).get("controller", ""), text, created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        controller = (obj.get("spec") or {}).get("controller", "")
        prefix, slash, path = controller.partition("/")
        if not controller:
            yield status.required("spec.controller")
        elif not slash or not path or not is_subdomain(prefix):
            text = 'must be a domain-prefixed path (such as "acme.io/foo")'
            yield status.invalid_value("spec.controller", controller, text)
        if len(controller) > _LONGEST_CONTROLLER:
            yield status.too_long("spec.controller", _LONGEST_CONTROLLER)
        yield from immutable(obj, old, "spec", "controller")
        reference = (obj.get("spec") or {}).get("parameters")
        if reference is not None:
            yield from _parameters_causes(reference, "spec.parameters")


def _parameters_causes(reference: Mapping[str, Any], where: str) -> Iterator[Cause]:
    yield from reference_causes(reference, where)
    scope, namespace = reference.get("scope"), reference.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        yield status.not_supported(f"{where}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Cluster" and namespace is not None:
        text = "`parameters.scope` is set to 'Cluster'"
        yield status.forbidden_field(f"{where}.namespace", text)
    elif scope == "Namespace" and namespace is None:
        yield status.required(f"{where}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif namespace is not None and scope == "Namespace" and (problems := name_problems("label", namespace)):
        yield from status.invalid_values(f"{where}.namespace", namespace, problems)


def _spec_causes(obj: Object) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield status.invalid_value("spec", [], "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _backend_causes(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        where, host = f"spec.rules[{index}]", rule.get("host", "")
        if host:
            if _ip_problem(host) in ("", _LEADING):
                yield status.invalid_value(f"{where}.host", host, "must be a DNS name, not an IP address")
            yield from host_causes(host, f"{where}.host")
        http = rule.get("http")
        if http is not None and not http.get("paths"):
            yield status.required(f"{where}.http.paths")
        for at, path in enumerate((http or {}).get("paths") or ()):
            yield from _path_causes(path, f"{where}.http.paths[{at}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for at, host in enumerate(tls.get("hosts") or ()):
            yield from host_causes(host, f"spec.tls[{index}].hosts[{at}]")
        name = tls.get("secretName", "")
        if name and (problems := name_problems("subdomain", name)):
            yield from status.invalid_values(f"spec.tls[{index}].secretName", name, problems)


def host_causes(host: str, field: str) -> Iterator[Cause]:
    """Check a name of a host, which may begin with `*.`."""
    if "*" in host:
        if not host.startswith("*.") or not is_subdomain(host[2:]):
            yield status.invalid_value(field, host, _WILDCARD_TEXT)
    elif problems := name_problems("subdomain", host):
        yield from status.invalid_values(field, host, problems)


def _path_causes(path: Mapping[str, Any], where: str) -> Iterator[Cause]:
    kind, text = path.get("pathType"), path.get("path", "")
    if kind is None:
        yield status.required(f"{where}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield status.not_supported(f"{where}.pathType", kind, _PATH_TYPES)
    elif (kind != "ImplementationSpecific" or text) and not text.startswith("/"):
        yield status.invalid_value(f"{where}.path", text, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in _REFUSED_PARTS:
            if part in text:
                yield status.invalid_value(f"{where}.path", text, f"must not contain '{part}'")
        for end in _REFUSED_ENDS:
            if text.endswith(end):
                yield status.invalid_value(f"{where}.path", text, f"cannot end with '{end}'")
    yield from _backend_causes(path.get("backend") or {}, f"{where}.backend")


def _backend_causes(backend: Mapping[str, Any], where: str) -> Iterator[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield status.invalid_value(where, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from reference_causes(resource, f"{where}.resource")
    elif service is None:
        yield status.invalid_value(where, "", "resource or service backend is required")
    else:
        name, port = service.get("name", ""), service.get("port") or {}
        if not name:
            yield status.required(f"{where}.service.name")
        elif problems := name_problems("label", name):
            yield from status.invalid_values(f"{where}.service.name", name, problems)
        if port.get("name") and port.get("number"):
            yield status.invalid_value(where, "", "cannot set both port name & port number")
        elif port.get("name"):
            yield from port_causes(port["name"], f"{where}.service.port.name")
        elif port.get("number"):
            yield from port_causes(port["number"], f"{where}.service.port.number")
        else:
            yield status.required(where, "port name or number is required")


def reference_causes(reference: Mapping[str, Any], where: str) -> Iterator[Cause]:
    """Check a reference to an object of any kind."""
    group = reference.get("apiGroup")
    if group is not None and (problems := name_problems("subdomain", group)):
        yield from status.invalid_values(f"{where}.apiGroup", group, problems)
    for name in ("kind", "name"):
        text = reference.get(name, "")
        if not text:
            yield status.required(f"{where}.{name}")
        elif problems := name_problems("segment", text):
            yield from status.invalid_values(f"{where}.{name}", text, problems)


def entries(obj: Object | None) -> list[dict[str, Any]]:
    """Return the load balancer addresses of an object's status."""
    addresses: list[dict[str, Any]] = (((obj or {}).get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return addresses


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
    kept = {address.get("ip") for address in before}
    for index, entry in enumerate(entries(obj)):
        field = f"status.loadBalancer.ingress[{index}]"
        ip, host, mode = entry.get("ip", ""), entry.get("hostname", ""), entry.get("ipMode")
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
        return _LEADING
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return "must not be an IPv4-mapped IPv6 address"
    return ""


def _host_problem(text: str) -> str:
    if len(text) > _LONGEST_NAME:
        return f"must be no more than {_LONGEST_NAME} characters"
    if problems := name_problems("subdomain", text):
        return problems[0]
    return "must be a DNS name, not an IP address" if _ip_problem(text) in ("", _LEADING) else ""


STRATEGIES = {("networking.k8s.io", "Ingress"): _Ingresses(), ("networking.k8s.io", "IngressClass"): _IngressClasses()}
