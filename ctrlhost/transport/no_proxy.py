"""Which hosts are reached without the proxy: the rules of `NO_PROXY` as the official client reads them."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def bypasses_proxy(url: str, rules: str) -> bool:
    """Tell whether a comma-separated rule (host, domain, `host:port`, IP network, `*`) covers the URL's host."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    named = {host, f"{host}:{parts.port}"}
    for rule in (each.strip().lower().lstrip(".") for each in rules.split(",")):
        if not rule:
            continue
        if rule == "*" or rule in named or host.endswith("." + rule) or _in_network(host, rule):
            return True
    return False


def _in_network(host: str, rule: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False
