"""What makes a built-in object invalid: the rules that people run into, as small functions per kind."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox import status
from ctrlhost.sandbox.names import is_label, is_label_1035, is_subdomain, label_causes, name_problem
from ctrlhost.sandbox.selectors import match_selector
from ctrlhost.sandbox.status import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.sandbox.call import Object
    from ctrlhost.sandbox.kinds import Kind

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def causes(kind: Kind, obj: Object, old: Object | None) -> list[Cause]:
    """Check what is not metadata."""
    check = _CHECKS.get((kind.group, kind.kind))
    found = check(obj) if check is not None else []
    if kind.kind == "IngressClass" and old is not None:
        found += _immutable(obj, old, "spec", "controller")
    elif kind.kind == "EndpointSlice" and old is not None:
        found += _immutable(obj, old, "addressType")
    elif kind.kind in ("RoleBinding", "ClusterRoleBinding") and old is not None:
        found += _immutable(obj, old, "roleRef")
    return found


def _immutable(obj: Object, old: Object, *path: str) -> list[Cause]:
    left: Any = obj
    right: Any = old
    for part in path:
        left, right = (left or {}).get(part), (right or {}).get(part)
    return [] if left == right else [status.invalid_value(".".join(path), left, "field is immutable")]


def _port(value: Any, field: str) -> list[Cause]:
    if type(value) is int and not 1 <= value <= 65535:
        return [status.invalid_value(field, value, "must be between 1 and 65535, inclusive")]
    return []


def _not_negative(spec: Mapping[str, Any], field: str, prefix: str = "spec") -> list[Cause]:
    value = spec.get(field)
    if type(value) is int and value < 0:
        return [status.invalid_value(f"{prefix}.{field}", value, "must be greater than or equal to 0")]
    return []


def pod_spec_causes(spec: Mapping[str, Any], path: str, *, templated: bool = False) -> list[Cause]:
    """Check a pod's spec, or a template's."""
    found: list[Cause] = []
    containers = spec.get("containers") or []
    if not containers:
        found.append(status.required(f"{path}.containers"))
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            found += _container_causes(container, f"{path}.{field}[{index}]", names)
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name", "")
        if not is_label(name):
            found.append(status.invalid_value(f"{path}.volumes[{index}].name", name, name_problem("label", name)))
        elif name in volumes:
            found.append(status.duplicate(f"{path}.volumes[{index}].name", name))
        volumes.add(name)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            for at, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") not in volumes:
                    where = f"{path}.{field}[{index}].volumeMounts[{at}].name"
                    found.append(Cause("FieldValueNotFound", f"Not found: {status.shown(mount.get('name'))}", where))
    policy = spec.get("restartPolicy")
    allowed = ("Always",) if templated else ("Always", "OnFailure", "Never")
    if policy not in allowed:
        found.append(status.not_supported(f"{path}.restartPolicy", policy, allowed))
    for name in ("hostname", "subdomain"):
        if spec.get(name) and not is_label(spec[name]):
            found.append(status.invalid_value(f"{path}.{name}", spec[name], name_problem("label", spec[name])))
    return found


def _container_causes(container: Mapping[str, Any], path: str, names: set[str]) -> list[Cause]:
    found: list[Cause] = []
    name = container.get("name", "")
    if not name:
        found.append(status.required(f"{path}.name"))
    elif not is_label(name):
        found.append(status.invalid_value(f"{path}.name", name, name_problem("label", name)))
    elif name in names:
        found.append(status.duplicate(f"{path}.name", name))
    names.add(name)
    image = container.get("image", "")
    if not image:
        found.append(status.required(f"{path}.image"))
    elif image != image.strip():
        found.append(status.invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace"))
    for index, port in enumerate(container.get("ports") or ()):
        where = f"{path}.ports[{index}]"
        if not port.get("containerPort"):
            found.append(status.required(f"{where}.containerPort"))
        found += _port(port.get("containerPort") or 1, f"{where}.containerPort")
        if port.get("protocol") not in _PROTOCOLS:
            found.append(status.not_supported(f"{where}.protocol", port.get("protocol"), _PROTOCOLS))
    if container.get("imagePullPolicy") not in ("Always", "IfNotPresent", "Never"):
        supported = ("Always", "IfNotPresent", "Never")
        found.append(status.not_supported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), supported))
    found += [
        status.required(f"{path}.env[{index}].name")
        for index, variable in enumerate(container.get("env") or ())
        if not variable.get("name")
    ]
    return found


def _pod(obj: Object) -> list[Cause]:
    return pod_spec_causes(obj["spec"], "spec")


def _workload(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    found = _not_negative(spec, "replicas") + _not_negative(spec, "minReadySeconds")
    found += _not_negative(spec, "revisionHistoryLimit")
    selector = spec.get("selector")
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector:
        found.append(status.required("spec.selector"))
        found.append(status.invalid_value("spec.selector", {}, "empty selector is invalid for this kind"))
    else:
        found += selector_causes(selector, "spec.selector")
        if not found and not match_selector(selector, labels):
            text = "`selector` does not match template `labels`"
            found.append(status.invalid_value("spec.template.metadata.labels", labels or None, text))
    found += label_causes(labels, "spec.template.labels")
    found += pod_spec_causes(template.get("spec") or {}, "spec.template.spec", templated=True)
    kind = (spec.get("strategy") or {}).get("type")
    if obj["kind"] == "Deployment":
        if kind not in ("Recreate", "RollingUpdate"):
            found.append(status.not_supported("spec.strategy.type", kind, ("Recreate", "RollingUpdate")))
        elif kind == "Recreate" and (spec["strategy"].get("rollingUpdate")):
            text = "may not be specified when strategy `type` is 'Recreate'"
            found.append(status.forbidden_field("spec.strategy.rollingUpdate", text))
    return found


def selector_causes(selector: Mapping[str, Any], path: str) -> list[Cause]:
    """Check a LabelSelector."""
    found = label_causes(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = item.get("operator"), item.get("values")
        if operator not in _OPERATORS:
            found.append(status.invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
        elif operator in ("In", "NotIn") and not values:
            found.append(status.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(status.forbidden_field(f"{where}.values", text))
    return found


def _service(obj: Object) -> list[Cause]:
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
        if port.get("protocol") not in _PROTOCOLS:
            found.append(status.not_supported(f"{where}.protocol", port.get("protocol"), _PROTOCOLS))
        found += _port(port.get("targetPort"), f"{where}.targetPort")
        if (number, port.get("protocol")) in numbers:
            found.append(status.duplicate(where, {"port": number, "protocol": port.get("protocol")}))
        numbers.add((number, port.get("protocol")))
    found += label_causes(spec.get("selector") or {}, "spec.selector")
    return found


def _ingress(obj: Object) -> list[Cause]:
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


def _lease(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = []
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        found.append(status.invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    return found + _not_negative(spec, "leaseTransitions")


def address_causes(text: str, field: str) -> list[Cause]:
    """Check an end point's address: it may not lead back to the node."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return [status.invalid_value(field, text, "must be a valid IP address")]
    if address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast:
        why = "may not be in the loopback, link-local or multicast range, or unspecified"
        return [status.invalid_value(field, text, why)]
    return []


def _endpoint_slice(obj: Object) -> list[Cause]:
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


def _role(obj: Object) -> list[Cause]:
    found = []
    for index, rule in enumerate(obj.get("rules") or ()):
        if not rule.get("verbs"):
            found.append(status.required(f"rules[{index}].verbs", "verbs must contain at least one value"))
        if not rule.get("nonResourceURLs") and not (rule.get("apiGroups") and rule.get("resources")):
            where = f"rules[{index}].{'resources' if rule.get('apiGroups') else 'apiGroups'}"
            found.append(status.required(where, "resource rules must supply at least one api group and resource"))
    return found


def _binding(obj: Object) -> list[Cause]:
    role = obj.get("roleRef") or {}
    allowed = ("ClusterRole",) if obj["kind"] == "ClusterRoleBinding" else ("ClusterRole", "Role")
    found = []
    if role.get("kind") not in allowed:
        found.append(status.not_supported("roleRef.kind", role.get("kind", ""), allowed))
    if not role.get("name"):
        found.append(status.required("roleRef.name"))
    for index, subject in enumerate(obj.get("subjects") or ()):
        if not subject.get("name"):
            found.append(status.required(f"subjects[{index}].name"))
        if subject.get("kind") not in ("Group", "ServiceAccount", "User"):
            supported = ("Group", "ServiceAccount", "User")
            found.append(status.not_supported(f"subjects[{index}].kind", subject.get("kind", ""), supported))
        elif subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
            found.append(status.required(f"subjects[{index}].namespace"))
    return found


_RBAC = "rbac.authorization.k8s.io"
_CHECKS: Mapping[tuple[str, str], Callable[[Any], list[Cause]]] = {
    ("", "Pod"): _pod,
    ("", "Service"): _service,
    ("apps", "Deployment"): _workload,
    ("apps", "ReplicaSet"): _workload,
    ("apps", "StatefulSet"): _workload,
    ("apps", "DaemonSet"): _workload,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("coordination.k8s.io", "Lease"): _lease,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    (_RBAC, "Role"): _role,
    (_RBAC, "ClusterRole"): _role,
    (_RBAC, "RoleBinding"): _binding,
    (_RBAC, "ClusterRoleBinding"): _binding,
}
