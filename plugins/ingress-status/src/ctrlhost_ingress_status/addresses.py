"""Addresses as they stand in `status.loadBalancer.ingress`: made plain, compared, written down."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

#: One element of the list, with nothing in it that is empty.
Entry: TypeAlias = dict[str, Any]
Entries: TypeAlias = tuple[Entry, ...]


def is_ip(text: str) -> bool:
    """Say whether Go's parser takes the text for an IP address; it knows no zones, prefixes or octal numbers."""
    if "%" in text:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def normalise(raw: Any) -> Entries:
    """Give a list of the API without what is empty, without what names no address, and each address once, in order.

    Fields that an Ingress has no place for, such as `ipMode`, are left out. What is no list is an empty one.
    """
    entries: dict[str, Entry] = {}
    for one in raw if _is_list(raw) else ():
        if isinstance(one, Mapping) and (entry := _entry(one)):
            entries.setdefault(_canonical(entry), entry)
    return tuple(entries.values())


def _entry(raw: Mapping[str, Any]) -> Entry:
    entry = {field: raw[field] for field in ("ip", "hostname") if isinstance(raw.get(field), str) and raw[field]}
    ports = raw.get("ports")
    if entry and _is_list(ports):
        plain = [
            {field: one[field] for field in ("port", "protocol", "error") if one.get(field)}
            for one in ports
            if isinstance(one, Mapping)
        ]
        if plain:
            entry["ports"] = plain
    return entry


def fingerprint(entries: Iterable[Entry]) -> str:
    """Give a text that two lists share if, and only if, they name the same addresses, in whatever order."""
    return json.dumps(sorted(_canonical(entry) for entry in entries))


def same(one: Iterable[Entry], other: Iterable[Entry]) -> bool:
    """Say whether two lists, both made plain, name the same addresses; the order and an IP's spelling do not count."""
    return fingerprint(one) == fingerprint(other)


def told(entries: Sequence[Entry]) -> str:
    """Name a list in a log line, by its first address; empty when there is none."""
    if not entries:
        return ""
    first: str = entries[0].get("ip") or entries[0]["hostname"]
    return first


def _canonical(entry: Entry) -> str:
    ip = entry.get("ip", "")
    if ip and is_ip(ip):
        ip = ipaddress.ip_address(ip).exploded
    ports = [[port.get("port", 0), port.get("protocol", ""), port.get("error", "")] for port in entry.get("ports", ())]
    return json.dumps([ip, entry.get("hostname", ""), ports])


def _is_list(raw: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(raw, Sequence) and not isinstance(raw, (str, bytes))
