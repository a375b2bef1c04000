"""The addresses in `status.loadBalancer.ingress` and in the settings: parsed, normalised, compared, logged."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

#: One element of the list, without empty fields.
Entry: TypeAlias = dict[str, Any]
Entries: TypeAlias = tuple[Entry, ...]

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_NAME = 253
#: What the API server's lenient parser accepts as an IPv4 address, with leading zeros.
_LIKE_IP = re.compile(r"0*(25[0-5]|2[0-4]\d|1?\d?\d)(\.0*(25[0-5]|2[0-4]\d|1?\d?\d)){3}", re.ASCII)


def is_ip(text: str) -> bool:
    """Return whether Go's parser accepts the text as an IP address: no zones, prefixes or octal numbers."""
    if "%" in text:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def normalise(raw: Any) -> Entries:
    """Return the addresses in a list of the API, each once and in order, without empty fields and entries.

    Fields that an Ingress lacks, such as `ipMode`, are dropped. Anything but a list counts as empty.
    """
    entries: dict[str, Entry] = {}
    for address in raw if _is_list(raw) else ():
        if isinstance(address, Mapping) and (entry := _entry(address)):
            entries.setdefault(_canonical(entry), entry)
    return tuple(entries.values())


def _entry(raw: Mapping[str, Any]) -> Entry:
    entry = {field: raw[field] for field in ("ip", "hostname") if isinstance(raw.get(field), str) and raw[field]}
    ports = raw.get("ports")
    if entry and _is_list(ports):
        plain = [
            {field: port[field] for field in ("port", "protocol", "error") if port.get(field)}
            for port in ports
            if isinstance(port, Mapping)
        ]
        if plain:
            entry["ports"] = plain
    return entry


def fingerprint(entries: Iterable[Entry]) -> str:
    """Return a text that two lists share if, and only if, they have the same addresses in any order."""
    return json.dumps(sorted(_canonical(entry) for entry in entries))


def same(entries: Iterable[Entry], other: Iterable[Entry]) -> bool:
    """Return whether two normalised lists have the same addresses, in any order and spelling of IPs."""
    return fingerprint(entries) == fingerprint(other)


def summary(entries: Sequence[Entry]) -> str:
    """Return the first address of a list for log lines; empty if there is none."""
    return str(entries[0].get("ip") or entries[0]["hostname"]) if entries else ""


def _canonical(entry: Entry) -> str:
    ip = entry.get("ip", "")
    if ip and is_ip(ip):
        ip = ipaddress.ip_address(ip).exploded
    ports = [[port.get("port", 0), port.get("protocol", ""), port.get("error", "")] for port in entry.get("ports", ())]
    return json.dumps([ip, entry.get("hostname", ""), ports])


def _is_list(raw: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(raw, Sequence) and not isinstance(raw, (str, bytes))


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
    return [
        item
        for item in items(text)
        if is_ip(item) and getattr(ipaddress.ip_address(item), "ipv4_mapped", None) is not None
    ]


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
