"""Updates of a live Service or StatefulSet, limited to the fields that the plugin sets.

The server fills in defaults, and others add labels, environment variables and containers. Only the plugin's own fields
are compared; the rest of the live object is sent back unchanged.
"""

from __future__ import annotations

import copy
import re
from decimal import Decimal
from typing import Any

from ctrlhost_bitcoin.objects.desired import VOLUME
from ctrlhost_bitcoin.objects.names import CREDENTIALS_ANNOTATION

# Fields of a container that are ours even when unset, so that they go when the spec no longer has them.
_OURS_IF_ABSENT = ("args", "envFrom")
# Ours while the spec has a security context.
_IDENTITY = ("runAsUser", "runAsGroup", "fsGroup", "runAsNonRoot", "seccompProfile")
_PRIVILEGES = ("allowPrivilegeEscalation", "capabilities")
_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")
# The server writes more forms than the CRD accepts.
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][0-9]+)?)([a-zA-Z]*)")
_UNITS = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(1000)}
_UNITS |= {unit: Decimal(1000) ** power for power, unit in enumerate("MGTPE", 2)}
_UNITS |= {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)}
_FIXED = ("serviceName", "podManagementPolicy")


def update_service(live: dict[str, Any], desired: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the Service to write, and the fields that change; none if there is nothing to write."""
    wanted, changed = copy.deepcopy(live), list[str]()
    _update_map(wanted["metadata"].setdefault("labels", {}), desired["metadata"]["labels"], "labels", changed)
    spec = wanted.setdefault("spec", {})
    for field in ("publishNotReadyAddresses", "selector"):
        _set(spec, field, desired["spec"][field], changed)
    if [_port(each) for each in spec.get("ports") or ()] != [_port(each) for each in desired["spec"]["ports"]]:
        spec["ports"] = copy.deepcopy(desired["spec"]["ports"])
        changed.append("ports")
    return wanted, changed


def update_stateful_set(
    live: dict[str, Any], desired: dict[str, Any], *, keep_digest: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return the StatefulSet to write, and the fields that change (`replicas`, …); none if nothing is to be written.

    With `keep_digest` the pods keep their credentials.
    """
    wanted, changed = copy.deepcopy(live), list[str]()
    _update_map(wanted["metadata"].setdefault("labels", {}), desired["metadata"]["labels"], "labels", changed)
    spec, target = wanted["spec"], desired["spec"]
    if replicas(live) != target["replicas"]:
        spec["replicas"] = target["replicas"]
        changed.append("replicas")
    template, wished = spec.setdefault("template", {}), target["template"]
    metadata = template.setdefault("metadata", {})
    _update_map(metadata.setdefault("labels", {}), wished["metadata"]["labels"], "template labels", changed)
    annotations = metadata.get("annotations") or {}
    digest = wished["metadata"]["annotations"][CREDENTIALS_ANNOTATION]
    if annotations.get(CREDENTIALS_ANNOTATION) != digest and not (
        keep_digest and CREDENTIALS_ANNOTATION in annotations
    ):
        metadata["annotations"] = {**annotations, CREDENTIALS_ANNOTATION: digest}
        changed.append("credentials")
    pod = template.setdefault("spec", {})
    _set_all(pod, "securityContext", wished["spec"], _IDENTITY, changed)
    _set(pod, "automountServiceAccountToken", wished["spec"]["automountServiceAccountToken"], changed)
    _update_container(pod.setdefault("containers", []), wished["spec"]["containers"][0], changed)
    return wanted, changed


def fixed_differences(live: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return the fields that differ but cannot be changed once the StatefulSet exists."""
    fields = [field for field in _FIXED if live["spec"].get(field) != desired["spec"][field]]
    fields += [] if has_storage(live) or not has_storage(desired) else ["storage"]
    return fields + (["selector"] if _match_labels(live) != _match_labels(desired) else [])


def replicas(live: dict[str, Any]) -> int:
    """Return the replicas of a live StatefulSet; 1 if unset."""
    value = (live.get("spec") or {}).get("replicas")
    return 1 if value is None else int(value)


def digest_of(live: dict[str, Any]) -> str | None:
    """Return the digest of the credentials for the pods of a live StatefulSet."""
    annotations = live["spec"].get("template", {}).get("metadata", {}).get("annotations") or {}
    found: str | None = annotations.get(CREDENTIALS_ANNOTATION)
    return found


def has_storage(stateful_set: dict[str, Any]) -> bool:
    """Return whether the pods of a StatefulSet have a claim for our data; its claims cannot be changed."""
    claims = stateful_set["spec"].get("volumeClaimTemplates") or ()
    return any(each["metadata"]["name"] == VOLUME for each in claims)


def _match_labels(stateful_set: dict[str, Any]) -> Any:
    return (stateful_set["spec"].get("selector") or {}).get("matchLabels")


def _update_container(containers: list[dict[str, Any]], desired: dict[str, Any], changed: list[str]) -> None:
    for container in containers:
        if container.get("name") == desired["name"]:
            break
    else:
        containers.append(copy.deepcopy(desired))
        changed.append("container")
        return
    for field in ("image", "imagePullPolicy"):
        _set(container, field, desired[field], changed)
    for field in _OURS_IF_ABSENT:
        if field in desired:
            _set(container, field, desired[field], changed)
        elif container.get(field):
            del container[field]
            changed.append(field)
    if "resources" in desired and _amounts(container.get("resources")) != _amounts(desired["resources"]):
        container["resources"] = copy.deepcopy(desired["resources"])
        changed.append("resources")
    for mount in desired.get("volumeMounts") or ():
        mounts = container.get("volumeMounts") or []
        if not any(_covers(each, mount) for each in mounts):
            others = [each for each in mounts if each.get("name") != mount["name"]]
            container["volumeMounts"] = [*others, copy.deepcopy(mount)]
            changed.append("volumeMounts")
    _set_all(container, "securityContext", desired, _PRIVILEGES, changed)
    if not _covers(container.get("ports"), desired["ports"]):
        container["ports"] = copy.deepcopy(desired["ports"])
        changed.append("container ports")
    probe = container.get("readinessProbe") or {}
    foreign = [each for each in _PROBES if each in probe and each not in desired["readinessProbe"]]
    if foreign or not _covers(probe, desired["readinessProbe"]):
        kept = {name: value for name, value in probe.items() if name not in _PROBES}
        container["readinessProbe"] = {**kept, **copy.deepcopy(desired["readinessProbe"])}
        changed.append("readinessProbe")


def _set_all(
    target: dict[str, Any], field: str, wanted: dict[str, Any], ours: tuple[str, ...], changed: list[str]
) -> None:
    """Set our keys of a map that others may have keys in; none if the spec does not have the map."""
    if field not in wanted:
        return
    live = target.get(field) or {}
    if any(live.get(key) != wanted[field].get(key) for key in ours):
        others = {key: value for key, value in live.items() if key not in ours}
        target[field] = {**others, **copy.deepcopy(wanted[field])}
        if field not in changed:
            changed.append(field)


def _amounts(resources: dict[str, Any] | None) -> dict[tuple[str, str], Decimal]:
    """Return requests and limits as numbers, since the server writes `1000m` as `1`."""
    return {
        (kind, name): amount(text)
        for kind in ("requests", "limits")
        for name, text in ((resources or {}).get(kind) or {}).items()
    }


def amount(text: str | int) -> Decimal:
    """Return the number that a quantity such as `1.5Gi` or `100m` stands for."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f"invalid quantity: {text}")
    number, unit = found.groups()
    return Decimal(number) * _UNITS[unit]


def _set(target: dict[str, Any], field: str, value: Any, changed: list[str]) -> None:
    if target.get(field) != value:
        target[field] = copy.deepcopy(value)
        changed.append(field)


def _update_map(target: dict[str, str], wanted: dict[str, str], field: str, changed: list[str]) -> None:
    if any(target.get(name) != value for name, value in wanted.items()):
        target.update(wanted)
        changed.append(field)


def _covers(live: Any, desired: Any) -> bool:
    """Return whether `live` has all of `desired`; it may have more fields, but not more list items."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(_covers(live.get(name), value) for name, value in desired.items())
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(_covers(one, other) for one, other in zip(live, desired, strict=True))
        )
    return bool(live == desired)


def _port(port: dict[str, Any]) -> tuple[Any, ...]:
    number = port.get("port")
    return port.get("name"), number, port.get("targetPort", number), port.get("protocol", "TCP")
