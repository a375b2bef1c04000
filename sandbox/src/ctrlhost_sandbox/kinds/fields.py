"""Checks of fields that several kinds share."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import label_causes, label_value_problems, qualified_problems
from ctrlhost_sandbox.apimachinery.objects import at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
PROTOCOLS = ("SCTP", "TCP", "UDP")
"""The protocols of a port."""
_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_LONGEST_KEY = 253
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_PORT_NAME = (
    (r"[\s\S]{16}", "must be no more than 15 characters"),
    (r"[^-a-z0-9]", "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
    (r"\A[^a-z]*\Z", "must contain at least one letter (a-z)"),
    (r"--", "must not contain consecutive hyphens"),
    (r"\A-|-\Z", "must not begin or end with a hyphen"),
)

_PERCENT = re.compile(r"[0-9]{1,9}%", re.ASCII)
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_LEADING_ZERO = re.compile(r"(?<![0-9])0+(?=[0-9])", re.ASCII)
_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def key_problems(text: str) -> list[str]:
    """Return why `text` cannot be a key of a ConfigMap or Secret."""
    problems = []
    if len(text.encode()) > _LONGEST_KEY:
        problems.append(f"must be no more than {_LONGEST_KEY} characters")
    if not _KEY.fullmatch(text):
        problems.append(_KEY_TEXT)
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def port_causes(value: Any, field: str) -> Iterator[Cause]:
    """Check the number or the name of a port."""
    if type(value) is int:
        if not 1 <= value <= 65535:
            yield status.invalid_value(field, value, "must be between 1 and 65535, inclusive")
        return
    for pattern, text in _PORT_NAME:
        if re.search(pattern, "a" if value is None else value):
            yield status.invalid_value(field, value, text)


def ip_problem(text: str) -> tuple[str, ipaddress.IPv4Address | ipaddress.IPv6Address | None]:
    """Return why `text` is not an address in canonical form, and the address."""
    plain = _LEADING_ZERO.sub("", text) if ":" not in text else text
    try:
        parsed = ipaddress.ip_address(plain)
    except ValueError:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)", None
    if plain != text:
        return "must not have leading 0s", parsed
    return ("" if str(parsed) == text else f'must be in canonical form ("{parsed}")'), parsed


def network_problem(text: str) -> str:
    """Return why `text` is not a network of a field that has long accepted bits of a host."""
    address, slash, size = text.partition("/")
    problem, parsed = ip_problem(address)
    if "leading" in problem:
        return "must not have leading 0s in IP"
    if parsed is None or not slash or not size.isdigit() or int(size) > parsed.max_prefixlen:
        return "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    return "must not have leading 0s in prefix length" if size != str(int(size)) else ""


def special_problem(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return why an address cannot be that of an endpoint; "" if it can."""
    if address.is_unspecified:
        return f"may not be unspecified ({address})"
    if address.is_loopback:
        return "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_link_local:
        return "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if any(address in network for network in _LINK_LOCAL_MULTICAST):
        return "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    return ""


def not_negative(spec: Mapping[str, Any], *fields: str, path: str = "spec") -> Iterator[Cause]:
    """Check optional counts and durations of a spec, or of what is at `path`."""
    for field in fields:
        value = spec.get(field)
        if type(value) is int and value < 0:
            where = f"{path}.{field}" if path else field
            yield status.invalid_value(where, value, "must be greater than or equal to 0")


def share(value: Any) -> int:
    """Return a number of pods, or of percent; 0 if it is neither."""
    if type(value) is int:
        return value
    return int(value[:-1]) if type(value) is str and _PERCENT.fullmatch(value) else 0


def share_causes(value: Any, field: str) -> Iterator[Cause]:
    """Check a number of pods or a percentage."""
    if type(value) is str and not _PERCENT.fullmatch(value):
        yield status.invalid_value(field, value, _PERCENT_TEXT)
    elif type(value) is int and value < 0:
        yield status.invalid_value(field, value, "must be greater than or equal to 0")


def immutable(obj: Object, old: Object | None, *path: str) -> Iterator[Cause]:
    """Check that an update does not change a field."""
    value = at(obj, path)
    if old is not None and value != at(old, path):
        yield status.invalid_value(".".join(path), value, "field is immutable")


def positive(value: int, field: str) -> Iterator[Cause]:
    """Check a number."""
    if value <= 0:
        yield status.invalid_value(field, value, "must be greater than 0")


def qualified_causes(text: str, field: str) -> Iterator[Cause]:
    """Check a name with an optional prefix, as keys of labels are."""
    yield from status.invalid_values(field, text, qualified_problems(text))


def descending_causes(path: str, field: str) -> Iterator[Cause]:
    """Check a path that must not leave its directory."""
    if path.startswith("/"):
        yield status.invalid_value(field, path, "must be a relative path")
    if ".." in path.split("/"):
        yield status.invalid_value(field, path, "must not contain '..'")


def legacy_ip_causes(text: str, field: str, before: Sequence[str] = ()) -> Iterator[Cause]:
    """Check an address of a field that has long accepted leading zeros, unless an update keeps it."""
    problem, parsed = ip_problem(text)
    if text not in before and problem and (parsed is None or "leading" in problem):
        yield status.invalid_value(field, text, problem)
    elif text not in before and getattr(parsed, "ipv4_mapped", None) is not None:
        yield status.invalid_value(field, text, "must not be an IPv4-mapped IPv6 address")


def condition_causes(conditions: Sequence[Mapping[str, Any]], where: str) -> Iterator[Cause]:
    """Check conditions of the type that all kinds may use (`metav1.Condition`)."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        spot, kind, value = f"{where}[{index}]", condition.get("type", ""), condition.get("status", "")
        if kind in seen:
            yield status.duplicate(f"{spot}.type", kind)
        seen.add(kind)
        yield from status.invalid_values(f"{spot}.type", kind, qualified_problems(kind))
        if value not in ("False", "True", "Unknown"):
            yield status.not_supported(f"{spot}.status", value, ("False", "True", "Unknown"))
        yield from [
            status.required(f"{spot}.{name}") for name in ("lastTransitionTime", "reason") if not condition.get(name)
        ]
        if condition.get("reason") and not _REASON.fullmatch(condition["reason"]):
            text = "a condition reason must start with alphabetic character and may contain alphanumeric characters"
            yield status.invalid_value(f"{spot}.reason", condition["reason"], text)


def selector_causes(selector: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check a LabelSelector."""
    yield from label_causes(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        where, operator, values = f"{path}.matchExpressions[{index}]", item.get("operator"), item.get("values") or ()
        if operator not in _OPERATORS:
            yield status.invalid_value(f"{where}.operator", operator, "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            yield status.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield status.forbidden_field(f"{where}.values", text)
        yield from qualified_causes(item.get("key", ""), f"{where}.key")
        for position, value in enumerate(values):
            if problems := label_value_problems(value):
                yield from status.invalid_values(f"{where}.values[{position}]", value, problems)
