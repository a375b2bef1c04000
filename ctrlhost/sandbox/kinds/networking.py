"""Where a load balancer is reached: the part of the status that Services and Ingresses have alike."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import is_subdomain, name_problem
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.registry.operation import Call

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_MODES = ("Proxy", "VIP")
_LEADING_ZERO = re.compile(r"(?<![0-9])0+(?=[0-9]+(\.|$))", re.ASCII)
_LONGEST_NAME = 253


class Ingresses(BuiltinStrategy):
    """A new Ingress without a class gets the default one. Addresses in the status are checked."""

    def prepare_create(self, engine: Engine, call: Call, obj: Object) -> None:
        """Fill in the default class as admission does: the newest one, unless a class is named in some way."""
        if "ingressClassName" in obj["spec"] or CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
            return
        classes = [one.decode()["metadata"] for one in engine.store.table("networking.k8s.io/ingressclasses").list()]
        defaults = [one for one in classes if (one.get("annotations") or {}).get(_DEFAULT) == "true"]
        if defaults:
            newest = max(one["creationTimestamp"] for one in defaults)
            obj["spec"]["ingressClassName"] = min(one["name"] for one in defaults if one["creationTimestamp"] == newest)

    def causes(self, engine: Engine, call: Call, obj: Object, old: Object | None) -> list[Cause]:
        """Check that a new one names one class, and the status, where it changes."""
        found = address_causes(obj, old, call.warnings)
        named, annotated = obj["spec"].get("ingressClassName"), obj["metadata"].get("annotations") or {}
        if old is None and CLASS_ANNOTATION in annotated and named and named != annotated[CLASS_ANNOTATION]:
            text = "must match `ingressClassName` when both are specified"
            found.append(status.invalid_value(f"annotations.{CLASS_ANNOTATION}", annotated[CLASS_ANNOTATION], text))
        elif old is None and CLASS_ANNOTATION in annotated:
            text = f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
            call.warnings.append(text)
        if named and not is_subdomain(named):
            found.append(status.invalid_value("spec.ingressClassName", named, name_problem("subdomain", named)))
        return found


def entries(obj: Object | None) -> list[dict[str, Any]]:
    """Give the addresses in an object's status."""
    found: list[dict[str, Any]] = (((obj or {}).get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return found


def address_causes(obj: Object, old: Object | None, warnings: list[str], *, modes: bool = False) -> list[Cause]:
    """Check the addresses of a status that changes; an IP that was there before may stay.

    `modes` says that the kind has `ipMode`. What is only odd is added to `warnings`.
    """
    before = entries(old)
    if entries(obj) == before:
        return []
    kept, found = {one.get("ip") for one in before}, []
    for index, one in enumerate(entries(obj)):
        field = f"status.loadBalancer.ingress[{index}]"
        ip, host, mode = one.get("ip", ""), one.get("hostname", ""), one.get("ipMode")
        if ip and ip not in kept:
            if problem := _ip_problem(ip):
                found.append(status.invalid_value(f"{field}.ip", ip, problem))
            elif ":" in ip and (canonical := str(ipaddress.ip_address(ip))) != ip:
                text = f'IPv6 address "{ip}" should be in RFC 5952 canonical format ("{canonical}")'
                warnings.append(f"{field}: {text}")
        if modes and mode is not None:
            if not ip:
                found.append(status.forbidden_field(f"{field}.ipMode", "may not be specified when `ip` is not set"))
            elif mode not in _MODES:
                found.append(status.not_supported(f"{field}.ipMode", mode, _MODES))
        if host:
            found += [status.invalid_value(f"{field}.hostname", host, problem) for problem in _host_problems(host)]
    return found


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


def _host_problems(text: str) -> list[str]:
    if len(text) > _LONGEST_NAME:
        return [f"must be no more than {_LONGEST_NAME} characters"]
    if problem := name_problem("subdomain", text):
        return [problem]
    return ["must be a DNS name, not an IP address"] if _ip_problem(text) in ("", "must not have leading 0s") else []
