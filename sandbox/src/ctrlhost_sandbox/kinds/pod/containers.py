"""Validation of the containers of a pod."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import is_label, is_subdomain, name_problems, qualified_problems
from ctrlhost_sandbox.apimachinery.status import Cause
from ctrlhost_sandbox.kinds.fields import PROTOCOLS, descending_causes, key_problems, not_negative, port_causes
from ctrlhost_sandbox.kinds.pod.security import container_security_causes
from ctrlhost_sandbox.kinds.resources import resource_causes
from ctrlhost_sandbox.schema.normalize import amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_BYTES = (*("1", "1k", "1M", "1G", "1T", "1P", "1E"), *("1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"))
_DIVISORS = {"cpu": ("1m", "1"), "memory": _BYTES, "ephemeral-storage": _BYTES}
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTARTS = ("Always", "Never", "OnFailure")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_VARIABLE_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_METADATA = ("metadata.name", "metadata.namespace", "metadata.uid")
_STATUS = ("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
_VARIABLE_FIELDS = (*_METADATA, "spec.nodeName", "spec.serviceAccountName", *_STATUS)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", *_METADATA)
#: The fields of pods that have a name in the downward API, if not everywhere a value.
_KNOWN_FIELDS = {*_VARIABLE_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)


def container_causes(
    container: Mapping[str, Any],
    path: str,
    names: set[str],
    volumes: set[str],
    *,
    templated: bool,
    initial: bool = False,
) -> Iterator[Cause]:
    """Check a container; `names` are those of the containers before it, `volumes` those of the pod.

    `initial` says that it runs before the others.
    """
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        yield status.required(f"{path}.name")
    elif not is_label(name):
        yield from status.invalid_values(f"{path}.name", name, name_problems("label", name))
    elif name in names:
        yield status.duplicate(f"{path}.name", name)
    names.add(name)
    if not image:
        yield status.required(f"{path}.image")
    elif image != image.strip() and not templated:
        yield status.invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    if (policy := container.get("terminationMessagePolicy")) not in _MESSAGE_POLICIES:
        yield status.not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    yield from _port_causes(container.get("ports") or (), f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _variable_causes(variable, f"{path}.env[{index}]")
    for index, source in enumerate(container.get("envFrom") or ()):
        yield from _source_causes(source, f"{path}.envFrom", index)
    privileged = bool((container.get("securityContext") or {}).get("privileged"))
    yield from _mount_causes(
        container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes, privileged=privileged
    )
    if (policy := container.get("imagePullPolicy")) not in _PULL_POLICIES:
        yield status.not_supported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES)
    yield from resource_causes(container.get("resources") or {}, f"{path}.resources")
    yield from _resize_causes(container.get("resizePolicy") or (), f"{path}.resizePolicy")
    yield from container_security_causes(container.get("securityContext") or {}, f"{path}.securityContext")
    if initial and (restart := container.get("restartPolicy")) != "Always":
        if restart is not None and restart not in _RESTARTS:
            yield status.not_supported(f"{path}.restartPolicy", restart, _RESTARTS)
        text = "may not be set for init containers without restartPolicy=Always"
        for name in ("lifecycle", *_PROBES):
            if container.get(name) is not None:
                yield status.forbidden_field(f"{path}.{name}", text)
        return
    for hook, handler in sorted((container.get("lifecycle") or {}).items()):
        if type(handler) is dict:
            yield from _handler_causes(handler, f"{path}.lifecycle.{hook}")
    for kind in _PROBES:
        if (probe := container.get(kind)) is not None:
            where = f"{path}.{kind}"
            yield from _handler_causes(probe, where)
            yield from not_negative(probe, *_PROBE_COUNTS, path=where)
            if kind != "readinessProbe" and (number := probe.get("successThreshold", 1)) != 1:
                yield status.invalid_value(f"{where}.successThreshold", number, "must be 1")
            grace = probe.get("terminationGracePeriodSeconds")
            if grace is not None and grace <= 0:
                yield status.invalid_value(f"{where}.terminationGracePeriodSeconds", grace, "must be greater than 0")
            if grace is not None and kind == "readinessProbe":
                text = "must not be set for readinessProbes"
                yield status.invalid_value(f"{where}.terminationGracePeriodSeconds", grace, text)


def host_port_causes(containers: Sequence[Mapping[str, Any]], path: str, taken: set[str]) -> Iterator[Cause]:
    """Check that no two ports of containers are the same port of the node; `taken` collects them."""
    for index, container in enumerate(containers):
        for at, port in enumerate(container.get("ports") or ()):
            number = port.get("hostPort")
            key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{number}"
            if number and key in taken:
                yield status.duplicate(f"{path}[{index}].ports[{at}].hostPort", key)
            elif number:
                taken.add(key)


def _resize_causes(policies: Sequence[Mapping[str, Any]], path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in names:
            yield status.duplicate(f"{path}[{index}]", name)
        names.add(name)
        for value, allowed in ((name, ("cpu", "memory")), (restart, ("NotRequired", "RestartContainer"))):
            if not value:
                yield status.required(path)
            elif value not in allowed:
                yield status.not_supported(path, value, allowed)


def _source_causes(source: Mapping[str, Any], path: str, index: int) -> Iterator[Cause]:
    """Check where variables come from. Some field names have no index, as in a real server's messages."""
    prefix = source.get("prefix", "")
    if prefix and not all(" " <= char <= "~" and char != "=" for char in prefix):
        yield status.invalid_value(f"{path}[{index}].prefix", prefix, _VARIABLE_TEXT)
    kinds = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
    for kind in kinds:
        name = source[kind].get("name", "")
        if not name:
            yield status.required(f"{path}[{index}].{kind}.name")
        elif problems := name_problems("subdomain", name):
            yield from status.invalid_values(f"{path}[{index}].{kind}.name", name, problems)
    if not kinds:
        text = "must specify one of: `configMapRef` or `secretRef`"
        yield status.invalid_value(path, "", text)
    elif len(kinds) > 1:
        yield status.invalid_value(path, "", "may not have more than one field specified at a time")


def _port_causes(ports: Sequence[Mapping[str, Any]], path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{path}[{index}]", port.get("name", "")
        if name:
            yield from (problems := list(port_causes(name, f"{where}.name")))
            if not problems and name in names:
                yield status.duplicate(f"{where}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield status.required(f"{where}.containerPort")
        yield from port_causes(port.get("containerPort") or 1, f"{where}.containerPort")
        yield from port_causes(port.get("hostPort") or 1, f"{where}.hostPort")
        if port.get("protocol") not in PROTOCOLS:
            yield status.not_supported(f"{where}.protocol", port.get("protocol"), PROTOCOLS)


def _variable_causes(variable: Mapping[str, Any], path: str) -> Iterator[Cause]:
    name, source = variable.get("name", ""), variable.get("valueFrom")
    if not name:
        yield status.required(f"{path}.name")
    elif not all(" " <= char <= "~" and char != "=" for char in name):
        yield status.invalid_value(f"{path}.name", name, _VARIABLE_TEXT)
    if source is None:
        return
    where, kinds = f"{path}.valueFrom", [kind for kind in _SOURCES if source.get(kind) is not None]
    for kind in kinds:
        yield from _reference_causes(kind, source[kind], f"{where}.{kind}")
    if not kinds:
        *first, last = (f"`{kind}`" for kind in _SOURCES)
        yield status.invalid_value(where, "", f"must specify one of: {', '.join(first)} or {last}")
    elif variable.get("value"):
        yield status.invalid_value(where, "", "may not be specified when `value` is not empty")
    elif len(kinds) > 1:
        yield status.invalid_value(where, "", "may not have more than one field specified at a time")


def _reference_causes(kind: str, source: Mapping[str, Any], where: str) -> Iterator[Cause]:
    if kind == "fieldRef":
        yield from field_causes(source, where, _VARIABLE_FIELDS)
    elif kind == "resourceFieldRef":
        yield from resource_field_causes(source, where, volume=False)
    elif kind in ("configMapKeyRef", "secretKeyRef"):
        name, key = source.get("name", ""), source.get("key", "")
        if not is_subdomain(name):
            yield from status.invalid_values(f"{where}.name", name, name_problems("subdomain", name))
        if not key:
            yield status.required(f"{where}.key")
        else:
            yield from status.invalid_values(f"{where}.key", key, key_problems(key))


def resource_field_causes(source: Mapping[str, Any], where: str, *, volume: bool) -> Iterator[Cause]:
    """Check a reference of the downward API to a resource of a container, whose name a volume needs."""
    resource, divisor = source.get("resource", ""), source.get("divisor") or "0"
    if volume and not source.get("containerName"):
        yield status.required(f"{where}.containerName")
    elif not resource:
        yield status.required(f"{where}.resource")
    elif resource not in _RESOURCES and not resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        yield status.not_supported(f"{where}.resource", resource, _RESOURCES)
    kind = resource.partition(".")[2]
    allowed = _DIVISORS.get("memory" if kind.startswith("hugepages-") else kind)
    if allowed is not None and amount(divisor) and divisor not in allowed:
        text = f"only divisor's values {', '.join(allowed)} are supported with the {kind} resource"
        yield status.invalid_value(f"{where}.divisor", divisor, text)


def field_causes(source: Mapping[str, Any], where: str, allowed: Sequence[str]) -> Iterator[Cause]:
    """Check a reference of the downward API to a field of the pod."""
    path, version = source.get("fieldPath", ""), source.get("apiVersion", "")
    base, subscript, key = path.removesuffix("']").partition("['") if path.endswith("']") else (path, "", "")
    problem = ""
    if not path:
        yield status.required(f"{where}.fieldPath")
        return
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif subscript and base not in ("metadata.annotations", "metadata.labels"):
        problem = f"field label does not support subscript: {path}"
    elif not subscript and path not in _KNOWN_FIELDS and path != "spec.host":
        problem = f"field label not supported: {path}"
    if problem:
        yield status.invalid_value(f"{where}.fieldPath", path, f"error converting fieldPath: {problem}")
    elif subscript:
        yield from status.invalid_values(where, key, qualified_problems(key))
    elif path not in allowed and (path != "spec.host" or "spec.nodeName" not in allowed):
        yield status.not_supported(f"{where}.fieldPath", path, allowed)


def _mount_causes(
    mounts: Sequence[Mapping[str, Any]], path: str, volumes: set[str], *, privileged: bool
) -> Iterator[Cause]:
    targets: set[str] = set()
    for index, mount in enumerate(mounts):
        where, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield status.required(f"{where}.name")
        if name not in volumes:
            yield Cause("FieldValueNotFound", f"Not found: {status.show(name)}", f"{where}.name")
        if not target:
            yield status.required(f"{where}.mountPath")
        if target in targets:
            yield status.invalid_value(f"{where}.mountPath", target, "must be unique")
        targets.add(target)
        # The field names have no index, as in a real server's messages.
        for name in ("subPath", "subPathExpr"):
            if mount.get(name):
                yield from descending_causes(mount[name], f"{path}.{name}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            text = "subPathExpr and subPath are mutually exclusive"
            yield status.invalid_value(f"{where}.subPathExpr", mount["subPathExpr"], text)
        propagation = mount.get("mountPropagation")
        if propagation is not None and propagation not in _PROPAGATIONS:
            yield status.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS)
        elif propagation == "Bidirectional" and not privileged:
            yield status.forbidden_field(
                f"{path}.mountPropagation", "Bidirectional mount propagation is available only to privileged containers"
            )


def _handler_causes(handler: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check the action of a probe or of a hook, of which there must be one."""
    kinds = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    if not kinds:
        yield status.required(path, "must specify a handler type")
        return
    kind, action = kinds[0], handler[kinds[0]]
    if kind == "exec" and not action.get("command"):
        yield status.required(f"{path}.exec.command")
    elif kind in ("httpGet", "tcpSocket", "grpc"):
        yield from port_causes(action.get("port", 0), f"{path}.{kind}.port")
    if kind == "httpGet" and action.get("scheme") not in ("HTTP", "HTTPS"):
        yield status.not_supported(f"{path}.httpGet.scheme", action.get("scheme"), ("HTTP", "HTTPS"))
    for header in (action.get("httpHeaders") or ()) if kind == "httpGet" else ():
        if not _HEADER.fullmatch(header.get("name", "")):
            yield status.invalid_value(f"{path}.httpGet.httpHeaders", header.get("name", ""), _HEADER_TEXT)
    yield from [
        status.forbidden_field(f"{path}.{other}", "may not specify more than 1 handler type") for other in kinds[1:]
    ]
