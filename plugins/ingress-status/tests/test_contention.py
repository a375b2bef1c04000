"""Pauses for an object that another writer keeps changing."""

from __future__ import annotations

from ctrlhost_ingress_status.contention import Contention

from ctrlhost import Request

KEY = Request("web", "default")


def test_the_sixth_change_in_ten_minutes_is_one_too_many() -> None:
    contention = Contention()
    assert [contention.edited(KEY, float(at)) for at in range(0, 60, 10)] == [False] * 5 + [True]
    assert contention.pause(KEY, 50.0) == 60
    assert contention.contested(50.0) == [KEY]
    assert contention.pause(KEY, 110.0) == 0
    assert contention.contested(110.0) == []


def test_changes_that_are_far_apart_are_no_contention() -> None:
    contention = Contention()
    assert not any(contention.edited(KEY, at * 121.0) for at in range(50))


def test_the_pause_doubles_up_to_half_an_hour_while_it_lasts() -> None:
    contention, now, pauses = Contention(), 0.0, []
    for _ in range(5):
        contention.edited(KEY, now)
    for _ in range(7):
        assert contention.edited(KEY, now)
        pauses.append(contention.pause(KEY, now))
        now += pauses[-1] + 1
    assert pauses == [60, 120, 240, 480, 960, 1800, 1800]
    now += 601
    assert not contention.edited(KEY, now)


def test_objects_are_counted_separately_and_forgotten_when_deleted() -> None:
    contention = Contention()
    for _ in range(6):
        contention.edited(KEY, 0.0)
    assert contention.pause(Request("other", "default"), 0.0) == 0
    contention.forget(KEY)
    assert contention.pause(KEY, 0.0) == 0


def test_old_contention_takes_no_memory() -> None:
    contention = Contention()
    for number in range(3000):
        contention.edited(Request(f"i{number}", "default"), float(number))
    assert len(contention._fights) <= 1000
