"""The formats of values in custom resources, with the verdicts of a real server's registry."""

from __future__ import annotations

import calendar
import ipaddress
import re
from decimal import Decimal
from typing import TYPE_CHECKING

from ctrlhost_sandbox._native import Pattern, is_url
from ctrlhost_sandbox.schema.structural import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ctrlhost_sandbox.schema.structural import Schema

_OF_NUMBERS: Mapping[str, frozenset[str]] = {
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
}
_INT64 = 2**63


def effective(schema: Schema) -> str:
    """Return the format of a schema; "" for one that a server does not check for its type."""
    name, kind = schema.get("format") or "", schema.get("type") or "string"
    known = name.replace("-", "") in _CHECKS if kind == "string" else name in _OF_NUMBERS.get(kind, ())
    return name if known else ""


def unknown(schema: Schema) -> Iterator[str]:
    """Yield the formats of a schema that a server does not check for its type; it keeps them, with a warning."""
    if (name := schema.get("format")) and not effective(schema):
        yield name
    for child in children(schema):
        yield from unknown(child)


def fits(name: str, value: str) -> bool:
    """Return whether a text has a format, whose hyphens do not count; each has those of numbers."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or check(value)


def _go(pattern: str) -> Callable[[str], bool]:
    """Return a check by a pattern in Go's syntax, which has more sets of characters and takes linear time."""
    compiled = Pattern(f"^(?:{pattern})$")

    def check(value: str) -> bool:
        try:
            return compiled.occurs_in(value.encode(errors="replace"))
        except ValueError:
            # The text is too long for the size of the pattern.
            return False

    return check


def _like(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda value: compiled.fullmatch(value) is not None


_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:.\d+)?(?:z|[+-]\d\d:\d\d)", re.ASCII)


def _is_date(value: str) -> bool:
    match = _DATE.fullmatch(value)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    # Python has no year 0, which is a leap year.
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 2000, month)[1]


def _is_datetime(value: str) -> bool:
    """Check a date and a time of day; what follows another `t` does not count."""
    date, *rest = value.lower().split("t")
    match = _TIME.fullmatch(rest[0]) if rest else None
    return match is not None and _is_date(date) and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_GO_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:ns|us|µs|μs|ms|s|m|h))++)", re.ASCII)
#: Without backtracking, so that long texts take linear time.
_PART = re.compile(r"(\d+\.?\d*|\.\d+)([a-zµμ]+)", re.ASCII)
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_SCALA_DURATION = re.compile(r"(?<!\d)(\d++)\s*+([A-Za-zµ]++)", re.ASCII)
_UNITS = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_UNIT_STARTS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _is_duration(value: str) -> bool:
    """Check a duration in Go's syntax, or any text with an amount and a unit in Scala's."""
    if _GO_DURATION.fullmatch(value) and abs(_nanoseconds(value)) < _INT64:
        return True
    amounts = _SCALA_DURATION.findall(value)
    known = any(unit.lower() in _UNITS or unit.lower().startswith(_UNIT_STARTS) for _, unit in amounts)
    return known and all(_is_int64(amount) for amount, _ in amounts)


def _nanoseconds(value: str) -> Decimal:
    return sum((Decimal(amount) * _NANOSECONDS[unit] for amount, unit in _PART.findall(value)), Decimal())


def _is_int64(digits: str) -> bool:
    digits = digits.lstrip("0") or "0"
    return len(digits) < 20 and int(digits) < _INT64


def _ipv4_sloppy(value: str) -> str:
    """Return an IPv4 address without leading zeros, which a real server accepts here; "" if it is invalid."""
    parts = value.split(".")
    if len(parts) != 4 or any(not (part.isascii() and part.isdigit()) for part in parts):
        return ""
    octets = [part.lstrip("0") or "0" for part in parts]
    return ".".join(octets) if all(len(octet) <= 3 and int(octet) <= 255 for octet in octets) else ""


def _is_ipv6(value: str) -> bool:
    try:
        ipaddress.IPv6Address(value)
    except ValueError:
        return False
    return "%" not in value


def _is_ipv6_sloppy(value: str) -> bool:
    head, colon, last = value.rpartition(":")
    if "." in last:
        last = _ipv4_sloppy(last) or "?"
    groups = [re.sub(r"^0+(?=[0-9a-fA-F])", "", group) for group in head.split(":")]
    return _is_ipv6(f"{':'.join(groups)}{colon}{last if '.' in last else re.sub(r'^0+(?=.)', '', last)}")


def _is_cidr(value: str) -> bool:
    address, slash, mask = value.partition("/")
    bits = 32 if _ipv4_sloppy(address) else 128 if _is_ipv6_sloppy(address) else -1
    return bool(slash and mask.isascii() and mask.isdigit() and len(mask.lstrip("0")) <= 3 and int(mask) <= bits)


_HOSTNAME = _go(
    r"[a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|"
    r"([a-zA-Z0-9\p{S}\p{L}](([-a-zA-Z0-9\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)\.)+[a-zA-Z\p{L}]{2,63}"
)


def _is_hostname(value: str) -> bool:
    """Check one label, or several of which the last has letters only."""
    sizes = [len(label.encode(errors="replace")) for label in value.split(".")]
    return max(sizes) <= 63 and sum(sizes) + len(sizes) - 1 <= 255 and _HOSTNAME(value)


def _is_mac(value: str) -> bool:
    pairs = re.fullmatch(r"[0-9a-fA-F]{2}(?:([:-])[0-9a-fA-F]{2})(?:\1[0-9a-fA-F]{2})*", value)
    other = re.fullmatch(r"[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4})*|[0-9a-fA-F]*", value)
    return bool(pairs or other) and len(re.sub(r"[:.-]", "", value)) in (12, 16, 40)


def _is_isbn10(value: str) -> bool:
    digits = re.sub(r"[\s-]+", "", value, flags=re.ASCII)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits, 1)) % 11 == 0


def _is_isbn13(value: str) -> bool:
    digits = re.sub(r"[\s-]+", "", value, flags=re.ASCII)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


_CREDIT_CARD = _like(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}"
)


def _is_credit_card(value: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", value)
    doubled = [sum(divmod(int(digit) * (1 + place % 2), 10)) for place, digit in enumerate(reversed(digits))]
    return _CREDIT_CARD(digits) and sum(doubled) % 10 == 0


_ATOM = r"[-A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10FFFF}]+"
_DOT_ATOM = rf"{_ATOM}(?:\.{_ATOM})*"
_QUOTED = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*"'
_BLANK = r"[ \t]*"
_COMMENT = rf"(?:{_BLANK}\((?:[^()\\]|\\.)*\))*{_BLANK}"
_SPECIFICATION = rf'{_BLANK}(?:{_DOT_ATOM}|"(?:[^"\\]|\\.)+")@{_BLANK}(?:{_DOT_ATOM}|\[[0-9a-fA-F:.]+\])'
_WORD = rf"(?:{_QUOTED}|[-.A-Za-z0-9!#$%&'*+/=?^_`{{|}}~\x{{80}}-\x{{10FFFF}}]+)"
_OCTET = r"(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
_NAME = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SHORT_NAME, _LONG_NAME = _like(_NAME), _like(rf"{_NAME}(?:\.{_NAME})*")

#: By name, without dashes.
_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _like(r"[0-9a-fA-F]{24}"),
    "byte": _like(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_datetime,
    "duration": _is_duration,
    "email": _go(
        rf"{_BLANK}(?:{_SPECIFICATION}|(?:{_WORD}{_BLANK})*<{_SPECIFICATION}{_BLANK}>){_COMMENT}",
    ),
    "hexcolor": _like(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": lambda value: "." in value and bool(_ipv4_sloppy(value) or _is_ipv6_sloppy(value)),
    "ipv6": _is_ipv6,
    "isbn": lambda value: _is_isbn10(value) or _is_isbn13(value),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": lambda value: len(value) <= 253 and _LONG_NAME(value),
    "k8sshortname": lambda value: len(value) <= 63 and _SHORT_NAME(value),
    "mac": _is_mac,
    "password": lambda value: True,
    "rgbcolor": _like(rf"rgb\(\s*{_OCTET}\s*,\s*{_OCTET}\s*,\s*{_OCTET}\s*\)"),
    "ssn": lambda value: len(value) == 11 and _like(r"\d{3}[- ]?\d{2}[- ]?\d{4}")(value),
    "uri": is_url,
    "uuid": _like(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})"),
    "uuid3": _like(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12})"),
    "uuid4": _like(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12})"),
    "uuid5": _like(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12})"),
}
