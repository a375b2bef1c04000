from __future__ import annotations

from typing import get_args

import pytest

from ctrlhost.status.model import KeyStatus, Verdict
from ctrlhost.status.pages.key import key_page
from tests.support.status_page import parse


@pytest.mark.behaviour("operations/OP63")
@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_each_verdict_is_shown_with_its_facts(verdict: Verdict) -> None:
    status = KeyStatus(
        verdict=verdict,
        facts=["14 failures", "last error: KeyError: 'spec' (wiring.py:31), reconcile 0-88213"],
        since="2026-11-23T15:00:00.123Z",
        due_seconds=41.4,
        position=7,
        reconciles=[],
        writes=[],
        object=None,
        failing=None,
    )
    page = key_page("naming/names", "default/a", status, "2026-11-23T15:00:09.000Z")
    texts = {section.name: [parse(row.html).text for row in section.rows] for section in page.sections}
    assert texts["verdict"] == [f"{verdict}, since 2026-11-23 15:00:00, due in 41 s, position 7"]
    assert texts["facts"][:2] == status.facts
    assert texts["facts"][2] == "As of 2026-11-23 15:00:09. All times are UTC."
    assert (texts["runs"], texts["last-writes"]) == (["none"], ["none"])
    assert [name for name, _ in page.trail] == ["Host", "Plugin naming", "Controller naming/names"]
    later = key_page("naming/names", "default/a", status, "2026-11-23T15:00:10.000Z")
    changed = [
        row.id
        for old, new in zip(page.sections, later.sections, strict=True)
        for row in new.rows
        if row not in old.rows
    ]
    assert changed == ["updated"]
