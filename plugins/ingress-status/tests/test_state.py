"""The times at which an address comes into force, and at which statuses are cleared."""

from __future__ import annotations

import math

from ctrlhost_ingress_status.discovery import AddressState, Clearing

A, B, C = ({"ip": "1.1.1.1"},), ({"ip": "2.2.2.2"},), ({"ip": "3.3.3.3"},)


def state() -> AddressState:
    return AddressState(quiet=1.0, longest=5.0)


def settled(addresses: AddressState, entries: tuple[dict[str, str], ...], now: float) -> bool:
    addresses.observe(entries, now)
    return addresses.settle("source", now)


def entries_of(addresses: AddressState) -> object:
    return addresses.known.entries if addresses.known else None


def test_the_first_address_comes_into_force_at_once() -> None:
    addresses = state()
    assert settled(addresses, (), 0.0)
    assert settled(addresses, A, 0.1)
    assert not settled(addresses, B, 0.2)
    assert addresses.due() == 1.2


def test_a_change_waits_until_it_is_stable() -> None:
    addresses = state()
    settled(addresses, A, 0.0)
    for number in range(5):
        assert not settled(addresses, ({"ip": f"9.9.9.{number}"},), 10 + number * 0.2)
    assert not addresses.settle("source", 11.7)
    assert addresses.settle("source", 11.8)
    assert entries_of(addresses) == ({"ip": "9.9.9.4"},)


def test_a_source_that_keeps_changing_is_followed_every_five_seconds() -> None:
    addresses = state()
    settled(addresses, A, 0.0)
    forces = [step for step in range(40) if settled(addresses, ({"ip": f"9.9.{step}.9"},), 10 + step * 0.5)]
    assert forces == [10, 21, 32]


def test_there_and_back_within_the_hold_off_is_nothing() -> None:
    addresses = state()
    settled(addresses, A, 0.0)
    settled(addresses, B, 10.0)
    assert not settled(addresses, A, 10.5)
    assert addresses.due() == math.inf


def test_another_order_is_no_change_and_is_ignored() -> None:
    addresses = state()
    settled(addresses, A + B, 0.0)
    assert not settled(addresses, B + A, 10.0)
    assert addresses.due() == math.inf
    assert entries_of(addresses) == A + B


def test_an_election_ends_the_hold_off_once() -> None:
    addresses = state()
    settled(addresses, A, 0.0)
    settled(addresses, B, 10.0)
    addresses.elected()
    assert addresses.settle("source", 10.1)
    assert not settled(addresses, C, 10.2)


def test_an_election_with_an_address_in_force_changes_nothing() -> None:
    addresses = state()
    settled(addresses, A, 0.0)
    addresses.elected()
    assert not settled(addresses, B, 10.0)


def test_each_address_in_force_has_a_number_and_a_time() -> None:
    addresses = state()
    settled(addresses, A, 3.0)
    settled(addresses, (), 10.0)
    addresses.settle("source", 11.0)
    known = addresses.known
    assert known is not None
    assert (known.number, known.since, known.entries) == (2, 11.0, ())


def test_nothing_is_cleared_before_the_grace_is_over_or_without_anything_published() -> None:
    addresses, clearing = state(), Clearing(300.0)
    settled(addresses, (), 0.0)
    assert clearing.due(addresses.known) == math.inf
    settled(addresses, A, 5.0)
    assert addresses.known is not None
    clearing.note(addresses.known)
    assert clearing.due(addresses.known) == math.inf
    settled(addresses, (), 10.0)
    addresses.settle("source", 11.0)
    assert clearing.due(addresses.known) == 311.0
    never = Clearing(None)
    never.published = clearing.published
    assert never.due(addresses.known) == math.inf
