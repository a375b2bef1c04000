"""The peers of each node."""

from __future__ import annotations

import pytest
from ctrlhost_bitcoin.mesh.targets import address, ip_of, is_ip, offsets, targets


def everybody(nodes: int) -> dict[int, str]:
    return {ordinal: f"10.0.{ordinal}.1" for ordinal in range(nodes)}


def links(nodes: int) -> set[tuple[int, int]]:
    ready = everybody(nodes)
    ordinals = {ip: ordinal for ordinal, ip in ready.items()}
    return {(node, ordinals[ip]) for node in ready for ip in targets(node, nodes, ready)}


def connected(nodes: int) -> bool:
    reached, new = {0}, {0}
    while new:
        new = {other for node, other in links(nodes) | {(b, a) for a, b in links(nodes)} if node in new} - reached
        reached |= new
    return len(reached) == nodes


@pytest.mark.behaviour("bitcoin/B24")
def test_small_networks_are_complete_and_large_ones_a_ring() -> None:
    assert list(offsets(9)) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert list(offsets(10)) == [1, 2, 3, 4, 5]
    assert list(offsets(17)) == list(offsets(18)) == [1, 2, 3, 4, 5, 6, 7, 8]
    for nodes in range(101):
        pairs = links(nodes)
        assert all(node != other for node, other in pairs)
        assert all(sum(node == index for node, _ in pairs) <= 8 for index in range(nodes))
        either = {frozenset(pair) for pair in pairs}
        if nodes <= 17:
            assert len(either) == nodes * (nodes - 1) // 2
        if nodes:
            assert connected(nodes)
    assert all(len(targets(ordinal, 9, everybody(9))) == 8 for ordinal in range(9))
    assert all(len(targets(ordinal, 18, everybody(18))) == 8 for ordinal in range(18))


def test_targets_are_chosen_by_ordinal_and_not_among_those_ready() -> None:
    ready = {0: "10.0.0.1", 3: "10.0.0.4", 7: "10.0.0.8"}
    assert targets(0, 12, ready) == ("10.0.0.4",)
    assert targets(3, 12, ready) == ("10.0.0.8",)
    assert targets(7, 12, ready) == ("10.0.0.1",)


@pytest.mark.parametrize(
    ("ip", "port", "text"),
    [
        ("10.0.0.1", 18444, "10.0.0.1"),
        ("10.0.0.1", 19000, "10.0.0.1:19000"),
        ("fd00::9", 18444, "fd00::9"),
        ("fd00:0:0::9", 19000, "[fd00::9]:19000"),
    ],
)
def test_a_node_has_one_spelling(ip: str, port: int, text: str) -> None:
    assert address(ip, port) == text
    assert ip_of(text, port) is not None


@pytest.mark.parametrize(
    "text",
    ["peer.example", "10.0.0.9:19000", "[fd00::9]:18444", "fd00:0:0::9", "", "10.0.0.256", "010.0.0.1", "[10.0.0.1]"],
)
def test_any_other_spelling_belongs_to_a_user(text: str) -> None:
    assert ip_of(text, 18444) is None


@pytest.mark.parametrize("text", ["10.0.0.9", "[10.0.0.9]:19000", "fd00::9:19000", "peer:19000", ":19000", "[]:19000"])
def test_with_another_port_bare_addresses_belong_to_a_user(text: str) -> None:
    assert ip_of(text, 19000) is None


def test_is_ip_recognises_addresses_only() -> None:
    assert is_ip("fd00::1")
    assert not is_ip("")
    assert not is_ip("localhost")
