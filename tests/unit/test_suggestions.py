"""Hints for unknown names."""

from __future__ import annotations

import pytest

from ctrlhost.suggestions import did_you_mean, nearest, suggest


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Deploymnet", "Deployment"),
        ("deployment", "Deployment"),
        ("leader-elect", "leader_elect"),
        ("xyz", None),
        ("", None),
    ],
)
def test_the_nearest_name_ignores_case_and_dashes(name: str, near: str | None) -> None:
    known = ["ReplicaSet", "Deployment", "leader_elect"]
    assert nearest(name, known) == near
    assert did_you_mean(name, known) == (None if near is None else f"did you mean `{near}`?")
    assert suggest(name, known) == (did_you_mean(name, known) or "known: Deployment, ReplicaSet, leader_elect")


def test_there_is_no_hint_without_known_names() -> None:
    assert suggest("a", []) is None
