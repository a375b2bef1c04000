"""The static list of addresses in the settings: parsing and validation."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING

from ctrlhost_ingress_status.addresses import fingerprint, is_ip, normalise

if TYPE_CHECKING:
    from ctrlhost_ingress_status.addresses import Entries, Entry

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_NAME = 253
#: What the API server's lenient parser accepts as an IPv4 address, with leading zeros.
_LIKE_IP = re.compile(r"0*(25[0-5]|2[0-4]\d|1?\d?\d)(\.0*(25[0-5]|2[0-4]\d|1?\d?\d)){3}", re.ASCII)


def items(text: str) -> list[str]:
    """Split a comma-separated list; white space around items and empty items are ignored."""
    return [item for part in text.split(",") if (item := part.strip())]


def parse(text: str) -> list[Entry]:
    """Parse a comma-separated list of IP addresses and host names, in their spelling and without validation."""
    return [{"ip": item} if is_ip(item) else {"hostname": item} for item in items(text)]


def static_entries(text: str) -> Entries:
    """Parse the setting, each address once; ValueError names every item that the API server would refuse.

    A text without an address is an error as well, since it can only be a mistake.
    """
    wrong = [f"{item!r} {why}" for item in items(text) if (why := _wrong(item))]
    if wrong:
        raise ValueError("; ".join(wrong))
    entries = normalise(parse(text))
    if not entries:
        raise ValueError(f"{text!r} names no address; omit the setting to follow the Service")
    return entries


def duplicates(text: str) -> list[str]:
    """Return the items that repeat an earlier address, in any spelling."""
    seen: set[str] = set()
    again = []
    for item, entry in zip(items(text), parse(text), strict=True):
        if (address := fingerprint([entry])) in seen:
            again.append(item)
        seen.add(address)
    return again


def mapped(text: str) -> list[str]:
    """Return the IPv4 addresses in the form of IPv6, which newer API servers refuse."""
    return [item for item in items(text) if is_ip(item) and getattr(ip_address(item), "ipv4_mapped", None) is not None]


def _wrong(item: str) -> str | None:
    if is_ip(item):
        return None
    if _LIKE_IP.fullmatch(item):
        return "is an IP address with leading zeros"
    if len(item) > _LONGEST_NAME:
        return f"is longer than {_LONGEST_NAME} characters"
    if not _SUBDOMAIN.fullmatch(item):
        return "is neither an IP address nor a lower-case host name"
    return None
