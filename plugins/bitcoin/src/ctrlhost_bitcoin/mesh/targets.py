"""The peers of each node: the addresses that it adds."""

from __future__ import annotations

import ipaddress
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The P2P port that daemons on regtest dial for an address without a port.
REGTEST_PORT = 18444
#: The most nodes of its list that a daemon connects to at once.
MAX_LINKS = 8
#: The most nodes of a complete mesh.
_COMPLETE = 9


def address(ip: str, p2p_port: int) -> str:
    """Return the only spelling of a node that is used, since daemons compare strings."""
    plain = str(ipaddress.ip_address(ip))
    if p2p_port == REGTEST_PORT:
        return plain
    return f"[{plain}]:{p2p_port}" if ":" in plain else f"{plain}:{p2p_port}"


def is_ip(text: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def ip_of(added: str, p2p_port: int) -> str | None:
    """Return the IP of an entry in the spelling of `address`; None for any other, which a user added."""
    host = added
    if p2p_port != REGTEST_PORT:
        host, _, _ = added.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    return host if is_ip(host) and address(host, p2p_port) == added else None


def offsets(nodes: int) -> range:
    """Return the distances, in ordinals, to the nodes that each node adds.

    Each pair of nodes is linked up to 17 nodes, in both directions up to 9; larger networks are a connected ring.
    """
    if nodes <= _COMPLETE:
        return range(1, nodes)
    return range(1, min(MAX_LINKS, math.ceil((nodes - 1) / 2)) + 1)


def targets(ordinal: int, nodes: int, ready: Mapping[int, str]) -> tuple[str, ...]:
    """Return the addresses for a node's list; `ready` has those of the ready nodes by ordinal.

    Distances are ordinals, not ranks among the ready nodes, so that a flapping node moves no others.
    """
    peers = sorted((ordinal + offset) % nodes for offset in offsets(nodes))
    return tuple(ready[peer] for peer in peers if peer in ready and peer != ordinal)
