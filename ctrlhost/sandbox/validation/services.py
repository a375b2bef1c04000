"""What makes Services, EndpointSlices and Ingresses invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import is_label, is_label_1035, is_subdomain, label_causes, name_problem
from ctrlhost.sandbox.validation.fields import PROTOCOLS, port_causes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def service(obj: Object) -> list[Cause]:
    """Check a Service."""
    spec = obj["spec"]
    found: list[Cause] = []
    kind, ports = spec.get("type"), spec.get("ports") or []
    if kind not in _SERVICE_TYPES:
        found.append(status.not_supported("spec.type", kind, _SERVICE_TYPES))
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        found.append(status.required("spec.ports"))
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        where, name = f"spec.ports[{index}]", port.get("name", "")
        if not name and len(ports) > 1:
            found.append(status.required(f"{where}.name"))
        elif name and not is_label(name):
            found.append(status.invalid_value(f"{where}.name", name, name_problem("label", name)))
        elif name in names:
            found.append(status.duplicate(f"{where}.name", name))
        names.add(name)
        number = port.get("port") or 0
        if not 1 <= number <= 65535:
            text = "must be between 1 and 65535, inclusive"
            found.append(status.invalid_value(f"{where}.port", number, text))
        if port.get("protocol") not in PROTOCOLS:
            found.append(status.not_supported(f"{where}.protocol", port.get("protocol"), PROTOCOLS))
        found += port_causes(port.get("targetPort"), f"{where}.targetPort")
        if (number, port.get("protocol")) in numbers:
            found.append(status.duplicate(where, {"port": number, "protocol": port.get("protocol")}))
        numbers.add((number, port.get("protocol")))
    if spec.get("sessionAffinity") not in ("ClientIP", "None"):
        found.append(status.not_supported("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None")))
    if kind in ("NodePort", "LoadBalancer") and spec.get("clusterIP") == "None":
        text = f"may not be set to 'None' for {kind} services"
        found.append(status.invalid_value("spec.clusterIPs[0]", "None", text))
    found += label_causes(spec.get("selector") or {}, "spec.selector")
    return found


def ingress(obj: Object) -> list[Cause]:
    """Check an Ingress."""
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    if not spec.get("rules") and not spec.get("defaultBackend"):
        found.append(status.invalid_value("spec", [], "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend"):
        found += _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        host = rule.get("host", "")
        where = f"spec.rules[{index}]"
        if host and not is_subdomain(host.removeprefix("*.")):
            found.append(status.invalid_value(f"{where}.host", host, name_problem("subdomain", host)))
        http = rule.get("http")
        if http is not None and not http.get("paths"):
            found.append(status.required(f"{where}.http.paths"))
        for at, path in enumerate((http or {}).get("paths") or ()):
            found += _ingress_path(path, f"{where}.http.paths[{at}]")
    return found


def _ingress_path(path: Mapping[str, Any], where: str) -> list[Cause]:
    found: list[Cause] = []
    kind, text = path.get("pathType"), path.get("path", "")
    if not kind:
        found.append(status.required(f"{where}.pathType", "pathType must be specified"))
    elif kind not in _PATH_TYPES:
        found.append(status.not_supported(f"{where}.pathType", kind, _PATH_TYPES))
    if (kind in ("Exact", "Prefix") or text) and not text.startswith("/"):
        found.append(status.invalid_value(f"{where}.path", text, "must be an absolute path"))
    return found + _backend(path.get("backend") or {}, f"{where}.backend")


def _backend(backend: Mapping[str, Any], where: str) -> list[Cause]:
    service = backend.get("service")
    if service is None:
        return [] if backend.get("resource") else [status.required(where, "resource or service backend is required")]
    found: list[Cause] = []
    if not is_label_1035(service.get("name", "")):
        found.append(status.invalid_value(f"{where}.service.name", service.get("name", ""), "must be a DNS-1035 label"))
    port = service.get("port") or {}
    if bool(port.get("name")) is bool(port.get("number")):
        found.append(status.required(f"{where}.service.port", "a port name or number is required, and only one"))
    return found


def ingress_class(obj: Object) -> list[Cause]:
    """Check an IngressClass."""
    controller = (obj.get("spec") or {}).get("controller", "")
    prefix, slash, path = controller.partition("/")
    if not controller:
        return [status.required("spec.controller")]
    if not slash or not path or not is_subdomain(prefix):
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [status.invalid_value("spec.controller", controller, text)]
    return []


def endpoint_slice(obj: Object) -> list[Cause]:
    """Check an EndpointSlice."""
    kind = obj.get("addressType", "")
    if kind not in ("FQDN", "IPv4", "IPv6"):
        return [
            status.not_supported("addressType", kind, ("FQDN", "IPv4", "IPv6"))
            if kind
            else status.required("addressType")
        ]
    found: list[Cause] = []
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            found.append(status.required(f"endpoints[{index}].addresses"))
    return found
