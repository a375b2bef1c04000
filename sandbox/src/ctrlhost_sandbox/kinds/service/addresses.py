"""The cluster addresses of a Service and their families; the sandbox's cluster has IPv4 only.

A real server checks them before it allocates anything, and reports them alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.kinds.fields import legacy_ip_causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_sandbox.apimachinery.status import Cause

_FAMILIES, _POLICIES = ("IPv4", "IPv6"), ("PreferDualStack", "RequireDualStack", "SingleStack")
_ADDRESSES = "spec.clusterIPs"


def is_headless(spec: Mapping[str, Any]) -> bool:
    """Return whether a Service has no cluster address."""
    return list(spec.get("clusterIPs") or ()) == ["None"]


def family_causes(spec: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[Cause]:
    """Return what makes an allocation impossible: first the syntax, then the combination, then the cluster."""
    if spec.get("type") == "ExternalName":
        return []
    return list(_syntax_causes(spec, before)) or list(_policy_causes(spec)) or list(_cluster_causes(spec))


def _syntax_causes(spec: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[Cause]:
    address, addresses, families = spec.get("clusterIP"), spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    if address and not addresses:
        yield status.required(_ADDRESSES)
    elif address and addresses[0] != address:
        yield status.invalid_value(_ADDRESSES, addresses, "first value must match `clusterIP`")
    elif addresses and not address:
        yield status.invalid_value(_ADDRESSES, addresses, "must be empty when `clusterIP` is not specified")
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield status.not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in families[:index]:
            yield status.duplicate(f"spec.ipFamilies[{index}]", family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        yield status.not_supported("spec.ipFamilyPolicy", policy, _POLICIES)
    wrong = False
    for index, text in enumerate(addresses):
        if index == 0 and text == "None":
            if len(addresses) > 1:
                wrong = True
                yield status.invalid_value(_ADDRESSES, addresses, "'None' must be the first and only value")
            continue
        problems = list(legacy_ip_causes(text, f"{_ADDRESSES}[{index}]", (before or {}).get("clusterIPs") or ()))
        wrong = wrong or bool(problems)
        yield from problems
    if len(addresses) > 2:
        yield status.invalid_value(_ADDRESSES, addresses, "may only hold up to 2 values")
    if wrong:
        return
    if len(addresses) > 1 and len({":" in text for text in addresses}) != len(addresses):
        yield status.invalid_value(_ADDRESSES, addresses, "may specify no more than one IP for each IP family")
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if not is_headless(spec) and (":" in address) is not (family == "IPv6"):
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield status.invalid_value(f"{_ADDRESSES}[{index}]", address, text)


def _policy_causes(spec: Mapping[str, Any]) -> Iterator[Cause]:
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    policy = spec.get("ipFamilyPolicy") or "SingleStack"
    if policy == "SingleStack":
        for values, what in ((addresses, "cluster IPs"), (families, "IP families")):
            if len(values) == 2:
                text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                yield status.invalid_value("spec.ipFamilyPolicy", policy, text)
    for index, address in enumerate(addresses):
        if address != "None" and ":" in address and index >= len(families):
            yield status.invalid_value(f"{_ADDRESSES}[{index}]", addresses, "IPv6 is not configured on this cluster")


def _cluster_causes(spec: Mapping[str, Any]) -> Iterator[Cause]:
    if is_headless(spec) and not spec.get("selector"):
        return
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        yield status.invalid_value("spec.ipFamilyPolicy", "RequireDualStack", text)
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family != "IPv4":
            yield status.invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def kept_causes(spec: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Cause]:
    """Check that an update keeps the first address and its family."""
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return
    headless, was_headless = is_headless(spec), is_headless(before)
    if headless and was_headless:
        return
    for field in ("clusterIPs", "ipFamilies") if headless is was_headless else ("clusterIPs",):
        values, old = spec.get(field) or [], before.get(field) or []
        if not values and old and field == "clusterIPs":
            yield status.invalid_value(f"spec.{field}[0]", values, "primary clusterIP can not be unset")
        elif len(values) == len(old):
            for index, (text, other) in enumerate(zip(values, old, strict=True)):
                if text != other:
                    place = index if field == "clusterIPs" else 0
                    yield status.invalid_value(f"spec.{field}[{place}]", values, "may not change once set")
        elif values and old and values[0] != old[0]:
            yield status.invalid_value(f"spec.{field}[0]", values, "may not change once set")
        if len(old) > len(values) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
            text = "must be set to 'SingleStack' when releasing the secondary one"
            yield status.invalid_value("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), text)
