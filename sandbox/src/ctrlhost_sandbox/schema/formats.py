"""The formats of strings that kube-apiserver checks, with the verdicts of its libraries, strange ones included."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from typing import TYPE_CHECKING

from ctrlhost_sandbox._native import Pattern, is_url
from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.apimachinery.names import is_label, is_subdomain
from ctrlhost_sandbox.schema.structural import Schema, children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def check_of(form: str) -> Callable[[str], bool] | None:
    """Return the check of a format, whose hyphens do not count; None for one that is not checked."""
    return _CHECKS.get(form.replace("-", ""))


def unknown(schema: Schema) -> Iterator[str]:
    """Yield the formats of a schema that a server does not check for its type; it keeps them, with a warning."""
    form, kind = schema.get("format"), schema.get("type") or "string"
    if form and not (form.replace("-", "") in _OF_TEXT if kind == "string" else form in _OF_NUMBERS.get(kind, ())):
        yield form
    for child in children(schema):
        yield from unknown(child)


def _fits(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Callable[[str], bool]:
    return lambda value: re.fullmatch(pattern, value, flags | re.ASCII) is not None


def _accepts(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            parse(value)
        except (ValueError, OverflowError):
            return False
        return True

    return check


def _uuid(version: str = "[0-9a-f]", variant: str = "[0-9a-f]") -> Callable[[str], bool]:
    parts = ("[0-9a-f]{8}", "[0-9a-f]{4}", f"{version}[0-9a-f]{{3}}", f"{variant}[0-9a-f]{{3}}", "[0-9a-f]{12}")
    return _fits("-?".join(parts), re.IGNORECASE)


def _is_date(value: str) -> bool:
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", value, re.ASCII)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    # Go's year 0, which is a leap year, is none of Python's.
    return _accepts(lambda _: dt.date(year or 2000, month, day))(value)


def _without_zeros(value: str) -> str:
    """Return an address without leading zeros in the decimal parts, which Go reads as decimal."""
    return re.sub(r"(?<![0-9a-f:.])0+(?=\d+\.)|(?<=\.)0+(?=\d)", "", value, flags=re.IGNORECASE)


def _is_address(value: str, sign: str) -> bool:
    return (
        sign in value and "%" not in value and _accepts(lambda text: ipaddress.ip_address(_without_zeros(text)))(value)
    )


def _is_cidr(value: str) -> bool:
    address, _, length = value.partition("/")
    if re.fullmatch(r"\d{1,3}", length, re.ASCII) is None or "%" in address:
        return False
    return _accepts(lambda _: ipaddress.ip_network(f"{_without_zeros(address)}/{int(length)}", strict=False))(value)


_MAC = "|".join(
    f"{group}(?:{sign}{group}){{{count - 1}}}"
    for octets in (6, 8, 20)
    for group, sign, count in (
        ("[0-9a-f]{2}", ":", octets),
        ("[0-9a-f]{2}", "-", octets),
        ("[0-9a-f]{4}", r"\.", octets // 2),
        ("[0-9a-f]{2}", "", octets),
    )
)

# ---- durations: those of Go, or any text with one in words ---------------------------------------------------------

_GO_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_IN_WORDS = re.compile(r"[0-9]+[\t\n\f\r ]*([A-Za-zµ]+)")
_UNITS = frozenset(["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"])
_UNIT_WORDS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _is_duration(value: str) -> bool:
    units = (unit.lower() for unit in _IN_WORDS.findall(value))
    return _GO_DURATION.fullmatch(value) is not None or any(
        unit in _UNITS or unit.startswith(_UNIT_WORDS) for unit in units
    )


# ---- mail ----------------------------------------------------------------------------------------------------------

_ATOM = r'[^\x00-\x20\x7f()<>\[\]:;@\\,."]+'
_DOTTED = rf"{_ATOM}(?:\.{_ATOM})*"
_QUOTED = r'"(?:[^"\\\r\n]|\\[^\r\n])*"'
_ADDRESS = rf"(?:{_DOTTED}|{_QUOTED})@(?:{_DOTTED}|\[[0-9.]+\])"
_NAME = rf"(?:(?:{_ATOM}|{_QUOTED}|\.)[ \t]*)*"

# ---- numbers with a checksum ---------------------------------------------------------------------------------------


def _is_isbn10(value: str) -> bool:
    digits = re.sub(r"[\s-]+", "", value)
    if re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII) is None:
        return False
    return sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits, 1)) % 11 == 0


def _is_isbn13(value: str) -> bool:
    digits = re.sub(r"[\s-]+", "", value)
    if re.fullmatch(r"\d{13}", digits, re.ASCII) is None:
        return False
    return sum((3 if place % 2 else 1) * int(digit) for place, digit in enumerate(digits)) % 10 == 0


_CARD = re.compile(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|(?:222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}|6(?:011|5\d\d)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}",
    re.ASCII,
)


def _is_card(value: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", value)
    if _CARD.fullmatch(digits) is None:
        return False
    doubled = ((int(digit) * (2 if place % 2 else 1)) for place, digit in enumerate(reversed(digits)))
    return sum(sum(divmod(number, 10)) for number in doubled) % 10 == 0


_BYTE = r"[ \t]*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])[ \t]*"
_TIME = _accepts(lambda value: times.parse(value.replace(",", ".")))
# One label, or several of which the last has letters only.
_HOSTNAME = Pattern(
    r"^(?:[a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|"
    r"([a-zA-Z0-9\p{S}\p{L}](([-a-zA-Z0-9\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)\.)+[a-zA-Z\p{L}]{2,63})$"
)

_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _fits("[0-9a-f]{24}", re.IGNORECASE),
    "byte": _fits(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}([A-Za-z0-9+/]|=)=|[A-Za-z0-9+/]{4})"),
    "cidr": _is_cidr,
    "creditcard": _is_card,
    "date": _is_date,
    "datetime": _TIME,
    "duration": _is_duration,
    "email": lambda value: re.fullmatch(rf"[ \t]*(?:{_ADDRESS}|{_NAME}<{_ADDRESS}>)[ \t]*", value) is not None,
    "hexcolor": _fits("#?(?:[0-9a-f]{3}|[0-9a-f]{6})", re.IGNORECASE),
    "hostname": lambda value: _HOSTNAME.occurs_in(value.encode(errors="replace")),
    "ipv4": lambda value: _is_address(value, "."),
    "ipv6": lambda value: _is_address(value, ":"),
    "isbn": lambda value: _is_isbn10(value) or _is_isbn13(value),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": is_subdomain,
    "k8sshortname": is_label,
    "mac": _fits(_MAC, re.IGNORECASE),
    "rgbcolor": _fits(rf"rgb\({_BYTE},{_BYTE},{_BYTE}\)"),
    "ssn": lambda value: len(value) == 11 and _fits(r"\d{3}[- ]?\d{2}[- ]?\d{4}")(value),
    "uri": is_url,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
}
_OF_TEXT = frozenset({*_CHECKS, "password"})
_OF_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}
