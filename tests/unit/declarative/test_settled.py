"""The memory of writes without an effect."""

from __future__ import annotations

from ctrlhost.declarative.settled import Settled


def test_what_was_left_is_remembered_for_each_object() -> None:
    settled = Settled()
    settled.keep("u1", ("a", b"1"))
    assert settled.include("u1", ("a", b"1"))
    assert not settled.include("u1", ("a", b"2"))
    assert not settled.include("u2", ("a", b"1"))
    settled.keep("u1", None)
    assert not settled.include("u1", ("a", b"1"))


def test_the_memory_is_bounded_to_the_latest_objects() -> None:
    settled = Settled(objects=2)
    for uid in ("u1", "u2", "u1", "u3"):
        settled.keep(uid, "left")
    assert [settled.include(uid, "left") for uid in ("u1", "u2", "u3")] == [True, False, True]


def test_it_is_enough_for_each_round_over_many_objects() -> None:
    settled = Settled()
    for uid in range(60_000):
        settled.keep(f"u{uid}", "left")
    assert all(settled.include(f"u{uid}", "left") for uid in range(60_000))
