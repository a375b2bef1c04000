"""The times at which an address comes into force, and at which statuses are cleared."""

from __future__ import annotations

import math

from ctrlhost_ingress_status.discovery import AddressState, Clearing

A, B, C = ({"ip": "1.1.1.1"},), ({"ip": "2.2.2.2"},), ({"ip": "3.3.3.3"},)


def state() -> AddressState:
    return AddressState(quiet=1.0, longest=5.0)


def settled(made: AddressState, entries: tuple[dict[str, str], ...], now: float) -> bool:
    made.observe(entries, now)
    return made.settle("source", now)


def entries_of(made: AddressState) -> object:
    return made.known.entries if made.known else None


def test_the_first_address_comes_into_force_at_once() -> None:
    made = state()
    assert settled(made, (), 0.0)
    assert settled(made, A, 0.1)
    assert not settled(made, B, 0.2)
    assert made.due() == 1.2


def test_a_change_waits_until_it_is_stable() -> None:
    made = state()
    settled(made, A, 0.0)
    for number in range(5):
        assert not settled(made, ({"ip": f"9.9.9.{number}"},), 10 + number * 0.2)
    assert not made.settle("source", 11.7)
    assert made.settle("source", 11.8)
    assert entries_of(made) == ({"ip": "9.9.9.4"},)


def test_a_source_that_keeps_changing_is_followed_every_five_seconds() -> None:
    made = state()
    settled(made, A, 0.0)
    forces = [step for step in range(40) if settled(made, ({"ip": f"9.9.{step}.9"},), 10 + step * 0.5)]
    assert forces == [10, 21, 32]


def test_there_and_back_within_the_hold_off_is_nothing() -> None:
    made = state()
    settled(made, A, 0.0)
    settled(made, B, 10.0)
    assert not settled(made, A, 10.5)
    assert made.due() == math.inf


def test_another_order_is_no_change_and_is_ignored() -> None:
    made = state()
    settled(made, A + B, 0.0)
    assert not settled(made, B + A, 10.0)
    assert made.due() == math.inf
    assert entries_of(made) == A + B


def test_an_election_ends_the_hold_off_once() -> None:
    made = state()
    settled(made, A, 0.0)
    settled(made, B, 10.0)
    made.elected()
    assert made.settle("source", 10.1)
    assert not settled(made, C, 10.2)


def test_an_election_with_an_address_in_force_changes_nothing() -> None:
    made = state()
    settled(made, A, 0.0)
    made.elected()
    assert not settled(made, B, 10.0)


def test_each_address_in_force_has_a_number_and_a_time() -> None:
    made = state()
    settled(made, A, 3.0)
    settled(made, (), 10.0)
    made.settle("source", 11.0)
    known = made.known
    assert known is not None
    assert (known.number, known.since, known.entries) == (2, 11.0, ())


def test_nothing_is_cleared_before_the_grace_is_over_or_without_anything_published() -> None:
    made, clearing = state(), Clearing(300.0)
    settled(made, (), 0.0)
    assert clearing.due(made.known) == math.inf
    settled(made, A, 5.0)
    assert made.known is not None
    clearing.note(made.known)
    assert clearing.due(made.known) == math.inf
    settled(made, (), 10.0)
    made.settle("source", 11.0)
    assert clearing.due(made.known) == 311.0
    never = Clearing(None)
    never.published = clearing.published
    assert never.due(made.known) == math.inf
