from __future__ import annotations

from typing import get_args

import pytest

from ctrlhost.server.page import entity_tag
from ctrlhost.status.model import KeyCondition, KeyEvent, KeyFailure, KeyObject, KeyStatus, Verdict
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
    sign = {"bad": "✖", "good": "●", "warn": "▲"}[_kind(verdict)]
    assert page.tab == f"{sign} {verdict} · Key default/a"
    line, *facts = texts["verdict"]
    assert line == f"{sign} {verdict}, since 15:00 UTC ( 8 s ago ), next run in 41 s, position 7"
    assert facts == status.facts
    assert texts["about"] == ["As of 2026-11-23 15:00:09. All times are UTC."]
    assert texts["commands"] == [
        "ctrlhost explain-key naming/names default/a",
        "ctrlhost enqueue naming/names default/a",
    ]
    assert texts.keys() == {"verdict", "commands", "about"}
    assert [name for name, _ in page.trail] == ["Host", "Plugin naming", "Controller naming/names"]
    # Time alone changes nothing else, so that an open page gets no new document.
    later = key_page("naming/names", "default/a", status, "2026-11-23T15:00:10.000Z")
    assert later != page
    assert entity_tag(later) == entity_tag(page)


def _kind(verdict: Verdict) -> str:
    if verdict in ("plugin not running", "backing off", "gave up"):
        return "bad"
    return "good" if verdict in ("processing", "queued", "delayed", "done") else "warn"


#: What a condition may have as the time of its last transition.
ODD = ("", "yesterday", "2026-11-23", "2026-11-23T14:00:09")


@pytest.mark.behaviour("oncall/OC4")
def test_a_failing_key_has_its_traceback_and_its_object_conditions_and_events() -> None:
    obj = KeyObject(
        cached_version="7",
        server="found",
        server_version="7",
        generation=2,
        observed_generation=1,
        deleted_since=None,
        finalizers=[],
        resource="widgets.example.com",
        conditions=[
            KeyCondition("Ready", "False", "Failed", "<b>no disk</b>", "2026-11-23T14:00:09Z"),
            *(KeyCondition(f"Odd{at}", "True", "", "", text) for at, text in enumerate(ODD)),
        ],
        events=[KeyEvent("Warning", "Failed", "no disk", 3, "2026-11-23T15:00:00.000Z")],
    )
    failing = KeyFailure(
        failures=14,
        since="2026-11-23T14:50:09.000Z",
        last="2026-11-23T15:00:00.000Z",
        cause="0a",
        error="KeyError: 'spec'",
        place="wiring.py:31",
        reconcile_id="0-88213",
        traceback="Traceback (most recent call last):\n  <module>\nKeyError: 'spec'",
    )
    facts = ["14 failures, next run in 41.0 s", "last error: KeyError: 'spec' (wiring.py:31), reconcile 0-88213"]
    status = KeyStatus("backing off", facts, None, 41.0, None, [], [], obj, failing)
    page = key_page("shop/widgets", "a b/it's", status, "2026-11-23T15:00:09.000Z")
    texts = {section.name: [parse(row.html).text for row in section.rows] for section in page.sections}
    # The error is said once.
    assert texts["verdict"] == ["✖ backing off, next run in 41 s"]
    error, times, trace = texts["error"]
    assert error == "KeyError: 'spec' (wiring.py:31)"
    assert times == "fails since 14:50 UTC ( 10 min ago ), last 9 s ago , 14 in a row, reconcile 0-88213"
    assert trace == "Traceback (most recent call last): <module> KeyError: 'spec'"
    # Quoted for a shell.
    assert texts["commands"][0] == "kubectl describe widgets.example.com 'it'\"'\"'s' --namespace 'a b'"
    assert texts["conditions"][0] == "Ready False Failed <b>no disk</b> 1.0 h ago"
    assert texts["conditions"][1:] == [f"Odd{at} True {text}".strip() for at, text in enumerate(ODD)]
    assert texts["events"] == ["✖ Warning Failed no disk 3 9 s ago"]
