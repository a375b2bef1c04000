"""The views that `ctrlhost top` opens."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.cli.details import CauseView, ControllerView, InformerView, KeyView
from tests.unit.cli.statuses import NOW, cause, page, status

pytestmark = pytest.mark.behaviour("oncall/OC13")

TRACEBACK = """Traceback (most recent call last):
  File "shop/orders.py", line 12, in reconcile
    return price(order)
  … 7 frames of ctrlhost
ValueError: no price for a1"""


class Host:
    """A host with one answer for each path."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def get(self, path: str, timeout: float | None = None) -> bytes:
        self.asked.append(path)
        return path.encode()

    def read(self, body: bytes) -> Any:
        return self.answers[body.decode()]


def texts(view: Any, answers: dict[str, Any], width: int | None = 80) -> list[str]:
    host = Host(answers)
    rows = view.rows(status(), view.ask(host), width)
    assert host.asked == list(answers)
    assert width is None or all(len(line) <= width for row in rows for line in row.lines)
    return [line for row in rows for line in row.lines]


def key_status(**fields: Any) -> dict[str, Any]:
    return {
        "verdict": "backing off",
        "facts": ["12 failures, next run in 10.1 s", "last error: ValueError: no price for a1"],
        "since": "2026-01-05T03:59:00.000Z",
        "due_seconds": 10.1,
        "position": None,
        "reconciles": [
            {
                "key": "orders/a1",
                "time": f"2026-01-05T03:59:{50 - number:02}.000Z",
                "seconds": 0.012,
                "result": "error",
                "reconcile_id": f"0-{40 - number}",
                "error": "ValueError: no price for a1",
            }
            for number in range(3)
        ],
        "writes": [],
        "object": None,
        "failing": {
            "failures": 12,
            "since": "2026-01-05T03:33:00.000Z",
            "last": NOW,
            "cause": "00000303",
            "error": "ValueError: no price for a1",
            "place": "shop/orders.py:12",
            "reconcile_id": "0-40",
            "traceback": TRACEBACK,
        },
    } | fields


def test_a_controller_has_facts_causes_and_keys() -> None:
    path = "/queues/shop/order?part="
    pages = {
        f"{path}failing&limit=200": page("orders/a1", "orders/a2", total=771),
        f"{path}processing&limit=50": page(),
        f"{path}queued&limit=50": page("orders/b1"),
        f"{path}delayed&limit=50": page(),
    }
    shown = texts(ControllerView("shop/order"), pages)
    assert shown[0] == "state       failing: 771 of 1,200 keys fail, 1 cause"
    assert shown[1] == "failing     since 27min"
    assert "queue       112 pending, 0 delayed, 771 retrying" in shown
    heading = next(at for at, line in enumerate(shown) if line.startswith("KEYS "))
    assert shown[heading + 1].split()[:2] == ["771", "shop/order"]
    assert any(line.startswith("orders/a2 ") for line in shown)
    assert "… 769 more failing; `ctrlhost queue` lists all" in shown
    rows = ControllerView("shop/order").rows(status(), ControllerView("shop/order").ask(Host(pages)), 80)
    assert [row.opens.title for row in rows if row.opens is not None] == [
        "shop/order: ValueError at shop/orders.py:12: no price for #",
        "shop/order orders/a1",
        "shop/order orders/a2",
        "shop/order orders/b1",
    ]


def test_a_cause_has_its_traceback_and_its_keys() -> None:
    view = CauseView("shop/order", "00000303", "ValueError")
    detail = {"cause": cause("shop/order", 771), "traceback": TRACEBACK, "failing": ["orders/a1"]}
    queue = "/queues/shop/order?part=failing&limit=200&cause=00000303"
    answers = {"/causes/shop/order": {"items": [detail], "total": 1}, queue: page("orders/a1", total=771)}
    shown = texts(view, answers)
    assert shown[0] == "cause       ValueError at shop/orders.py:12: no price for #"
    assert "keys        771 keys failing now" in shown
    assert "last        2s ago, of orders/a1 (0-40)" in shown
    begin = shown.index("TRACEBACK of orders/a1")
    assert shown[begin + 1 : begin + 6] == TRACEBACK.splitlines()
    assert shown[begin + 6].startswith("KEY ")
    assert shown[begin + 7].startswith("orders/a1 ")
    over = texts(view, {"/causes/shop/order": {"items": [], "total": 0}, queue: page()})
    assert over[0].startswith("this cause is over")


def test_a_key_has_its_own_runs_and_the_traceback() -> None:
    shown = texts(KeyView("shop/order", "orders/a1"), {"/keys/shop/order?key=orders%2Fa1": key_status()})
    assert shown[0] == "verdict     backing off: 12 failures, next run in 10.1 s"
    assert "since       2026-01-05T03:59:00.000Z (1.0min ago)" in shown
    assert "fails       since 2026-01-05T03:33:00.000Z (27min ago)" in shown
    assert [line.rpartition("(")[2] for line in shown if "03:59:" in line and "error" in line] == [
        "0-40)",
        "0-39)",
        "0-38)",
    ]
    assert shown[-len(TRACEBACK.splitlines()) :] == TRACEBACK.splitlines()
    assert any(line.startswith("try again   `ctrlhost enqueue shop/order orders/a1`") for line in shown)
    healthy = key_status(verdict="done", facts=["fine"], failing=None)
    assert not any(
        "try again" in line or "Traceback" in line for line in texts(KeyView("a/b", "c"), {"/keys/a/b?key=c": healthy})
    )


def test_an_informer_has_its_users() -> None:
    shown = texts(InformerView("pods."), {})
    assert shown[0] == "resource    pods (v1)"
    assert shown[-1].split() == ["shop/order", "100ms", "200ms", "0", "whole", "objects"]
    assert texts(InformerView("none"), {}) == ["this informer is gone"]
