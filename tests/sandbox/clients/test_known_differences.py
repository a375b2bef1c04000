"""The table of differences in docs/sandbox.md holds nothing that is not there any more."""

from __future__ import annotations

import pytest

from tests.sandbox.clients.comparison import Difference


def test_every_difference_has_its_reason(differences: list[Difference]) -> None:
    assert differences
    assert [row for row in differences if not row.why or not (row.real or row.sandbox)] == []


def test_every_listed_difference_is_there(
    request: pytest.FixtureRequest, differences: list[Difference], used_differences: set[Difference]
) -> None:
    chosen = {item.path.name for item in request.session.items}
    beside = {path.name for path in request.path.parent.glob("test_*.py")}
    if not beside <= chosen or request.config.getoption("-k") or request.session.testsfailed:
        pytest.skip("only the whole directory meets every difference")
    assert [row for row in differences if row not in used_differences] == []
