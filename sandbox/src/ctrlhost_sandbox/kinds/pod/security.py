"""Validation of the security contexts of pods and of containers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.kinds.fields import descending_causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_sandbox.apimachinery.status import Cause

_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?", re.ASCII)
_LONGEST_SYSCTL = 253
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")


def pod_security_causes(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check the security context of a pod's spec."""
    context, where = spec.get("securityContext") or {}, f"{path}.securityContext"
    yield from _id_causes(context, where, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _id_causes({"": group}, f"{where}.supplementalGroups[{index}]", "")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield status.invalid_value(f"{where}.shareProcessNamespace", True, text)
    names: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        field, name = f"{where}.sysctls[{index}].name", sysctl.get("name", "")
        if not name:
            yield status.required(field)
        elif len(name) > _LONGEST_SYSCTL or not _SYSCTL.fullmatch(name):
            yield status.invalid_value(
                field, name, f"must have at most {_LONGEST_SYSCTL} characters and match its rule"
            )
        elif name in names:
            yield status.duplicate(field, name)
        names.add(name)
        for flag, prefixes in (
            ("hostNetwork", ("net.",)),
            ("hostIPC", ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")),
        ):
            if spec.get(flag) and name.replace("/", ".").startswith(prefixes):
                yield status.invalid_value(field, name, f"may not be specified when '{flag}' is true")
    yield from _choice_causes(context, where, "fsGroupChangePolicy", "Always", "OnRootMismatch")
    yield from _profile_causes(context.get("seccompProfile"), f"{where}.seccompProfile", "seccomp")
    yield from _profile_causes(context.get("appArmorProfile"), f"{where}.appArmorProfile", "AppArmor")
    yield from _choice_causes(context, where, "supplementalGroupsPolicy", "Merge", "Strict")
    yield from _choice_causes(context, where, "seLinuxChangePolicy", "MountOption", "Recursive")


def container_security_causes(context: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check the security context of a container."""
    yield from _id_causes(context, path, "runAsUser", "runAsGroup")
    yield from _choice_causes(context, path, "procMount", "Default", "Unmasked")
    if context.get("procMount") == "Unmasked":
        yield status.invalid_value(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`")
    yield from _profile_causes(context.get("seccompProfile"), f"{path}.seccompProfile", "seccomp")
    if context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield status.invalid_value(path, dict(context), f"{text} `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            yield status.invalid_value(path, dict(context), f"{text} `capabilities.Add` CAP_SYS_ADMIN")
    yield from _profile_causes(context.get("appArmorProfile"), f"{path}.appArmorProfile", "AppArmor")


def _id_causes(context: Mapping[str, Any], path: str, *names: str) -> Iterator[Cause]:
    for name in names:
        value = context.get(name)
        if value is not None and not 0 <= value < 2**31:
            field = f"{path}.{name}" if name else path
            yield status.invalid_value(field, value, f"must be between 0 and {2**31 - 1}, inclusive")


def _choice_causes(context: Mapping[str, Any], path: str, name: str, *allowed: str) -> Iterator[Cause]:
    if (value := context.get(name)) is not None and value not in allowed:
        yield status.not_supported(f"{path}.{name}", value, allowed)


def _profile_causes(profile: Mapping[str, Any] | None, path: str, what: str) -> Iterator[Cause]:
    """Check a seccomp or AppArmor profile."""
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield status.required(
            f"{path}.type", "type is required when appArmorProfile is set" if what != "seccomp" else ""
        )
    elif kind not in _PROFILES:
        yield status.not_supported(f"{path}.type", kind, _PROFILES)
    if kind != "Localhost":
        if local is not None:
            text = f"can only be set when {what} type is Localhost"
            yield status.invalid_value(f"{path}.localhostProfile", dict(profile), text)
    elif local is None or (what != "seccomp" and not local.strip()):
        yield status.required(f"{path}.localhostProfile", f"must be set when {what} type is Localhost")
    elif what == "seccomp":
        yield from descending_causes(local, f"{path}.localhostProfile")
