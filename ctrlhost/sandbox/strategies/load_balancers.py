"""Where a load balancer is reached: the part of the status that Services and Ingresses have alike."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox import status
from ctrlhost.sandbox.names import name_problem
from ctrlhost.sandbox.strategies.base import BuiltinStrategy

if TYPE_CHECKING:
    from ctrlhost.sandbox.call import Call, Object
    from ctrlhost.sandbox.engine import Engine
    from ctrlhost.sandbox.status import Cause

_MODES = ("Proxy", "VIP")
_LEADING_ZERO = re.compile(r"(?<![0-9])0+(?=[0-9]+(\.|$))", re.ASCII)
_LONGEST_NAME = 253


class Ingresses(BuiltinStrategy):
    """The addresses in the status are checked, since controllers write what they were told."""

    def causes(self, engine: Engine, call: Call, obj: Object, old: Object | None) -> list[Cause]:
        """Check the status, where it changes."""
        return address_causes(obj, old, call.warnings)


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
