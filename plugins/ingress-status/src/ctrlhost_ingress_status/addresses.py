"""The addresses in `status.loadBalancer.ingress`: normalised, compared, logged."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

#: One element of the list, without empty fields.
Entry: TypeAlias = dict[str, Any]
Entries: TypeAlias = tuple[Entry, ...]


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
    """Return a text that two lists share if, and only if, they have the same addresses in any order."""
    return json.dumps(sorted(_canonical(entry) for entry in entries))


def same(one: Iterable[Entry], other: Iterable[Entry]) -> bool:
    """Return whether two normalised lists have the same addresses, in any order and spelling of IPs."""
    return fingerprint(one) == fingerprint(other)


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
