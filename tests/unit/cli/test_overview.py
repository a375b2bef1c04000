"""What `ctrlhost top` shows of a status, in each size of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ctrlhost.cli.overview import ORDERS, Overview, header
from ctrlhost.cli.rows import Row, matching
from tests.unit.cli.statuses import cause, controller, failing, informer, outcomes, plugin, status, webhook

behaviour = pytest.mark.behaviour


def lines(rows: Sequence[Row]) -> list[str]:
    return [line for row in rows for line in row.lines]


def whole(facts: dict[str, Any], order: str = "state") -> list[str]:
    """Return the lines of all rows, without a limit of width."""
    return lines(Overview(order).rows(facts, {}, None))


def words(line: str) -> str:
    """Return the line with single blanks."""
    return " ".join(line.split())


def head(facts: dict[str, Any], width: int | None = None, lost: str = "") -> list[str]:
    return lines(header(facts, width, lost))


@behaviour("oncall/OC12")
def test_the_header_says_how_the_host_is_in_each_width() -> None:
    assert head(status()) == ["ctrlhost 0.2.0  ready  cpu 3%  rss 104MiB  leads ctrlhost  up 3.2d  api ok 200ms"]
    bad = status(
        host={"ready": False, "dry_run": True},
        leader={"elected": True, "leases": [{"name": "ctrlhost", "mine": False, "holder": "other" * 10}]},
        apiserver={"up": False, "last_answer_seconds": 21.0},
    )
    for width in (40, 80, 200):
        narrow = head(bad, width, "connection lost, data of 26s ago, trying again: no host")
        assert all(len(line) <= width or "standby" in line for line in narrow)
        text = words(" ".join(narrow))
        for part in ("LOST dry run cpu 3% rss 104MiB standby of other", "up 3.2d API DOWN 21s", "data of 26s ago"):
            assert part in text
    assert "NOT READY  dry run" in head(bad)[0]
    leases = [{"name": name, "mine": name == "a", "holder": "x"} for name in "abc"]
    assert "leads 1 of 3 leases" in head(status(leader={"elected": True, "leases": leases}))[0]
    assert "stopping" in head(status(host={"state": "stopping"}))[0]


@behaviour("oncall/OC12")
def test_causes_are_first_then_the_worst_controllers() -> None:
    shown = whole(status(host={"not_ready": ["[-]plugin/shop failed: waiting"]}))
    assert shown[0] == "771 of 1,300 keys fail, 1 cause"
    assert shown[1] == "[-]plugin/shop failed: waiting"
    assert words(shown[2]) == "KEYS CONTROLLER SINCE LAST FAILURES/s CAUSE"
    assert words(shown[3]) == "771 shop/order 27min 2s ago 4.0 ValueError at shop/orders.py:12: no price for #"
    assert words(shown[4]) == "CONTROLLER RATE/s ERR/s P50 P99 ACTIVE PENDING OLDEST DELAYED RETRYING STATE"
    assert words(shown[5]) == "shop/order 0.0 6.1 - - 0/4 112 48s 0 771 failing: 771 of 1,200 keys fail, 1 cause"
    assert words(shown[6]) == "naming/calm 41.2 0.0 12ms 80ms 2/4 0 - 3 0 ok"
    assert words(shown[7]) == "INFORMER OBJECTS BYTES LAST EVENT USERS STATE"
    assert words(shown[8]) == "ingresses.networking.k8s.io 1,204 1.9MiB 2s 3 watching"
    assert shown[9].startswith("pods labels=a=b ")


def test_a_host_without_failures_has_no_causes() -> None:
    calm = status(causes=[], outcomes=outcomes(), controllers=[controller("a/b")])
    assert whole(calm)[0].startswith("CONTROLLER ")


@pytest.mark.parametrize(
    ("plugins", "fields", "state"),
    [
        ([plugin("a")], {}, "ok"),
        (
            [plugin("a")],
            {
                "state": "paused",
                "paused_by": "uid 0 pid 7",
                "paused_since": "2026-01-05T03:55:00.000Z",
                "paused_reason": "floods the API",
            },
            "paused by uid 0 pid 7, 5.0min: floods the API",
        ),
        ([plugin("a")], {"state": "standby"}, "standby"),
        ([plugin("a", paused="a/b by uid 0 pid 7, a/c by uid 0 pid 7")], {}, "ok"),
        ([plugin("a", "waiting", "no kind `X`")], {"workers": 0}, "waiting: no kind `X`"),
        (
            [plugin("a", "waiting", "no kind `X`, no kind `Y`")],
            {"state": "waiting", "waiting": "no kind `Y`"},
            "waiting: no kind `Y`",
        ),
        ([plugin("a", "waiting", "no kind `X`", waiting="for 61 s: no kind `X`")], {}, "ok"),
        ([plugin("a", "failing", "KeyError")], {"state": "paused"}, "failing: KeyError"),
        ([plugin("a", backlog="the oldest key of a/c has been queued for 301 s")], {}, "degraded: backlog: the oldest"),
        ([plugin("a", backlog="the oldest key of a/other has been queued for 301 s")], {}, "ok"),
        ([plugin("a", slow="its event loop does not turn")], {}, "degraded: slow: its event loop does not turn"),
        (
            [plugin("a", errors="a/c: 1 of 3 keys fails, 1 cause")],
            {"state": "degraded", "outcomes": outcomes("1 of 3 keys fails, 1 cause")},
            "degraded: 1 of 3 keys fails, 1 cause",
        ),
    ],
)
def test_the_state_of_a_controller(plugins: list[Any], fields: dict[str, Any], state: str) -> None:
    facts = status(plugins=plugins, controllers=[controller("a/c", **fields)], causes=[], outcomes=outcomes())
    assert whole(facts)[1].split(None, 10)[10].startswith(state)


def test_a_plugin_without_controllers_has_a_row_and_a_failed_one_is_first() -> None:
    plugins = [plugin("fine"), plugin("broken", "failed", "no settings")]
    facts = status(plugins=plugins, controllers=[failing("fine/a", 2, 3)], causes=[], outcomes=outcomes())
    assert [line.split()[0] for line in whole(facts)[1:3]] == ["broken", "fine/a"]
    assert whole(facts)[1].split(None, 10) == ["broken", *["-"] * 9, "failed: no settings"]


@behaviour("oncall/OC12")
@pytest.mark.parametrize("width", [80, 200, 60, 40])
def test_rows_fit_each_width_and_nothing_is_cut(width: int) -> None:
    name = "naming/crd_naming_condition_controller"
    text = f"the price of # is not a number, {'and this goes on ' * 7}to the end"
    reason = f"no kind `Thing` in example.com/v1, {'which nobody serves ' * 4}at all"
    facts = status(
        plugins=[plugin("naming"), plugin("shop"), plugin("other", "waiting", reason)],
        controllers=[controller(name), failing("shop/order", 771, 1200)],
        causes=[cause("shop/order", 771, text=text), cause("shop/order", 2)],
        informers=[informer("mutatingwebhookconfigurations", "admissionregistration.k8s.io")],
    )
    rows = Overview().rows(facts, {}, width)
    shown = lines(rows)
    assert all(len(line) <= width for line in shown)
    joined = words(" ".join(shown))
    if width >= 60:
        # Texts may need several lines, but all of them are there.
        assert words(f"ValueError at shop/orders.py:12: {text}") in joined
        assert words(f"waiting: {reason}") in joined
        assert "…" not in joined
    assert name in joined.replace("  ", " ") or width < 60
    assert "failing:" in joined
    # What has no room is left out as a whole.
    heading = next(line for line in shown if line.startswith("CONTROLLER "))
    assert {"RATE/s", "ERR/s", "STATE"} <= set(heading.split())


def test_each_order_begins_with_the_largest() -> None:
    fields = {
        "rate": "per_second",
        "errors": "errors_per_second",
        "pending": "depth",
        "oldest": "oldest_seconds",
    }
    view = Overview()
    for order in ORDERS[2:]:
        largest = controller("z/last", **{fields.get(order, order): 5})
        facts = status(controllers=[controller("a/first"), largest], causes=[], outcomes=outcomes(), plugins=[])
        assert whole(facts, order)[1].startswith("z/last")
        assert whole(facts, "name")[1].startswith("a/first")
    for order in (*ORDERS[1:], ORDERS[0]):
        view.sort()
        assert view.order == order


@behaviour("oncall/OC13")
def test_a_filter_leaves_the_rows_with_a_text_and_their_headings() -> None:
    rows = Overview().rows(status(), {}, 80)
    assert matching(rows, "") == rows
    left = matching(rows, "PODS")
    assert [row.is_heading for row in left] == [True, False]
    assert left[0].lines[0].startswith("INFORMER ")
    assert left[1].lines[0].startswith("pods labels=a=b")
    assert [row.lines[0].split()[0] for row in matching(rows, "shop/order") if not row.is_heading] == [
        "771",
        "shop/order",
    ]
    assert matching(rows, "nothing at all") == []


@behaviour("oncall/OC13")
def test_rows_open_what_they_show() -> None:
    opens = [(row.opens.title, row.opens.controller) for row in Overview().rows(status(), {}, 80) if row.opens]
    assert opens == [
        ("shop/order: ValueError at shop/orders.py:12: no price for #", "shop/order"),
        ("shop/order", "shop/order"),
        ("naming/calm", "naming/calm"),
        ("ingresses.networking.k8s.io", ""),
        ("pods.", ""),
    ]


@behaviour("operations/OP49")
def test_errors_of_plugins_are_text() -> None:
    bad = "<script> \x1b[31m{{\nsecond line"
    facts = status(causes=[cause("shop/order", 2, text=bad)])
    shown = whole(facts)
    assert any(line.endswith(r"ValueError at shop/orders.py:12: <script> \x1b[31m{{\nsecond line") for line in shown)
    assert all(line.isprintable() for line in shown)
    assert all(line.isprintable() for line in lines(Overview().rows(facts, {}, 60)))


def test_webhooks_are_shown_where_there_are_some() -> None:
    assert not any("WEBHOOK" in line for line in whole(status()))
    rows = Overview().rows(status(webhooks=[webhook("size"), webhook("zone", overdue=8)]), {}, None)
    hooks = [row for row in rows if "/validate/guard/" in row.lines[0]]
    # The stuck one is first.
    assert [row.lines[0].split()[0] for row in hooks] == ["/validate/guard/zone", "/validate/guard/size"]
    for part in ("1,200", "40", "500ms"):
        assert part in hooks[1].lines[0]
    assert hooks[1].lines[0].endswith("ok")
    assert hooks[0].lines[0].endswith("8 stuck")
    assert [row.style for row in hooks] == ["red", ""]


def test_informers_that_are_not_current_are_first() -> None:
    late = informer("pods", state="reconnecting", reason="connection refused")
    shown = whole(status(informers=[informer("nodes"), late]))
    assert shown[-2].startswith("pods")
    assert shown[-2].endswith("reconnecting: connection refused")
