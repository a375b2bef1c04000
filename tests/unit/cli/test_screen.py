"""What `ctrlhost top` shows of a status, in each size of a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.cli.screen import ORDERS, View, header, screen, whole
from ctrlhost.cli.top import _press

NOW = "2026-01-05T04:00:00.000Z"


def controller(name: str, **fields: Any) -> dict[str, Any]:
    queue = {"depth": 0, "oldest_seconds": 0.0, "delayed": 0, "retrying": 0, "processing": 0}
    queue |= {field: fields.pop(field) for field in list(fields) if field in queue}
    return {
        "name": name,
        "paused": False,
        "leading": True,
        "workers": 4,
        "active": 0,
        "per_second": 0.0,
        "errors_per_second": 0.0,
        "p50": None,
        "p99": None,
        "oldest_running_seconds": 0.0,
        "queue": queue,
    } | fields


def plugin(name: str, state: str = "running", reason: str = "", **degraded: str) -> dict[str, Any]:
    reasons = [{"reason": why, "since": NOW, "message": message} for why, message in degraded.items()]
    return {"name": name, "state": state, "reason": reason, "degraded": reasons}


def informer(resource: str, group: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "resource": resource,
        "group": group,
        "selection": "",
        "objects": 1204,
        "bytes": 1_992_294,
        "last_event_seconds": 2.0,
        "users": [{}, {}, {}],
        "state": "watching",
        "reason": "",
    } | fields


def status(**fields: Any) -> dict[str, Any]:
    host = {
        "version": "0.2.0",
        "state": "running",
        "ready": True,
        "not_ready": [],
        "dry_run": False,
        "started": "2026-01-02T00:00:00.000Z",
        "cpu_per_second": 0.031,
        "rss_bytes": 109_051_904,
    }
    return {
        "time": NOW,
        "host": host | fields.pop("host", {}),
        "leader": {"elected": True, "leases": [{"name": "ctrlhost", "mine": True, "holder": "a"}]},
        "apiserver": {"up": True, "last_answer_seconds": 0.2},
        "plugins": [plugin("naming", errors="the last 12 runs of naming/names failed; KeyError: 'group' (a.py:3)")],
        "controllers": [
            controller("naming/names", errors_per_second=6.1, depth=112, oldest_seconds=48.0, retrying=112),
            controller("naming/calm", per_second=41.23, p50=0.012, p99=0.08, active=2, delayed=3),
        ],
        "informers": [informer("ingresses", "networking.k8s.io"), informer("pods", selection="labels=a=b")],
        "failing": [],
        "errors": [],
    } | fields


def words(line: str) -> str:
    """Return the line with single blanks."""
    return " ".join(line.split())


def test_the_header_says_how_the_host_is() -> None:
    assert header(status()) == "ctrlhost 0.2.0  ready  leads ctrlhost  up 3.2d  api ok 200ms  cpu 3%  rss 104MiB"
    bad = status(
        host={"ready": False, "dry_run": True},
        leader={"elected": True, "leases": [{"name": "ctrlhost", "mine": False, "holder": "other"}]},
        apiserver={"up": False, "last_answer_seconds": 21.0},
    )
    assert "NOT READY  dry run  standby of other  up 3.2d  API DOWN 21s" in header(bad)
    leases = [{"name": name, "mine": name == "a", "holder": "x"} for name in "abc"]
    assert "leads 1 of 3 leases" in header(status(leader={"elected": True, "leases": leases}))
    assert "stopping" in header(status(host={"state": "stopping"}))
    # Of a host of an earlier version.
    old = status()
    del old["host"]["cpu_per_second"], old["host"]["rss_bytes"]
    assert header(old).endswith("cpu -  rss -")


def test_the_whole_table_has_each_column_and_each_state() -> None:
    lines = whole(status(), View())
    assert words(lines[1]) == "CONTROLLER RATE/s ERR/s P50 P99 ACTIVE DEPTH OLDEST DELAYED RETRY STATE"
    assert words(lines[2]) == "naming/calm 41.2 0.0 12ms 80ms 2/4 0 - 3 0 ok"
    assert words(lines[3]).startswith("naming/names 0.0 6.1 - - 0/4 112 48s 0 112 degraded: ")
    assert lines[3].endswith("degraded: errors: KeyError: 'group' (a.py:3)")
    assert words(lines[4]) == "INFORMER OBJECTS BYTES LAST EVENT USERS STATE"
    assert words(lines[5]) == "ingresses.networking.k8s.io 1,204 1.9MiB 2s 3 watching"
    assert lines[6].startswith("pods labels=a=b ")


@pytest.mark.parametrize(
    ("plugins", "fields", "state"),
    [
        ([plugin("a")], {}, "ok"),
        ([plugin("a")], {"paused": True, "paused_by": "uid 0 pid 7"}, "paused by uid 0 pid 7"),
        ([plugin("a")], {"leading": False}, "standby"),
        ([plugin("a", paused="a/b by uid 0 pid 7, a/c by uid 0 pid 7")], {}, "ok"),
        ([plugin("a", "waiting", "no kind `X`")], {"workers": 0}, "waiting: no kind `X`"),
        ([plugin("a", "waiting", "no kind `X`, no kind `Y`")], {"waiting": "no kind `Y`"}, "waiting: no kind `Y`"),
        ([plugin("a", "waiting", "no kind `X`", waiting="for 61 s: no kind `X`")], {"waiting": None}, "ok"),
        ([plugin("a", "waiting", "no kind `X`")], {"paused": True, "paused_by": "b"}, "paused by b"),
        ([plugin("a", "waiting", "no kind `X`", errors="the last 2 runs of a/c failed; E")], {}, "degraded: errors: E"),
        ([plugin("a", "failing", "KeyError")], {"paused": True}, "failing: KeyError"),
        ([plugin("a", backlog="the oldest key of a/c has been queued for 301 s")], {}, "degraded: backlog: the oldest"),
        ([plugin("a", backlog="the oldest key of a/other has been queued for 301 s")], {}, "ok"),
        ([plugin("a", slow="its event loop does not turn")], {}, "degraded: slow: its event loop does not turn"),
    ],
)
def test_the_state_of_a_controller(plugins: list[Any], fields: dict[str, Any], state: str) -> None:
    lines = whole(status(plugins=plugins, controllers=[controller("a/c", **fields)]), View())
    assert lines[2].split(None, 10)[10].startswith(state)


def test_a_plugin_without_controllers_has_a_row() -> None:
    lines = whole(status(plugins=[plugin("broken", "failed", "no settings")], controllers=[]), View())
    assert lines[2].split(None, 10) == ["broken", *["-"] * 9, "failed: no settings"]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 10), (200, 50), (40, 5), (80, 1), (20, 4)])
@pytest.mark.parametrize("errors", [False, True])
def test_the_screen_fits_each_size(width: int, height: int, errors: bool) -> None:
    controllers = [controller(f"plugin-{at}/a-controller-with-a-long-name", depth=at) for at in range(40)]
    plugins = [plugin(f"plugin-{at}") for at in range(40)]
    failing = [
        {
            "controller": "a/c",
            "key": f"namespace-{at}/name",
            "failures": at,
            "next_retry_seconds": None,
            "error": "E" * 300,
            "place": "a.py:1",
            "reconcile_id": f"0-{at}",
        }
        for at in range(10)
    ]
    informers = [informer(f"resources{at}", "a.long.group.example.com") for at in range(30)]
    many = status(controllers=controllers, plugins=plugins, informers=informers, failing=failing)
    lines = screen(many, View(errors=errors), width, height, "no host")
    assert len(lines) <= height
    assert all(len(line.text) <= width for line in lines)
    if (width, height) == (80, 24) and not errors:
        texts = [line.text for line in lines]
        assert texts[2] == "connection lost, trying again: no host"
        assert sum(text.startswith("plugin-") for text in texts) >= 10
        assert sum(text.startswith("resources") for text in texts) >= 4
        assert sum("… " in text and text.endswith(" more") for text in texts) == 2


def test_each_order_begins_with_the_largest() -> None:
    fields = {
        "rate": "per_second",
        "errors": "errors_per_second",
        "oldest": "oldest_seconds",
        "retry": "retrying",
    }
    view = View()
    for order in ORDERS[1:]:
        view.sort()
        assert view.order == order
        largest = controller("z/last", **{fields.get(order, order): 5})
        assert whole(status(controllers=[controller("a/first"), largest]), view)[2].startswith("z/last")
    view.sort()
    assert view.order == "name"


def test_keys_change_the_view() -> None:
    view = View()
    for key in "/PODS\x7fq":
        assert _press(key, view)
    assert (view.filter, view.typing) == ("PODq", True)
    assert "[/]filter: PODq_" in screen(status(), view, 80, 24)[1].text
    assert _press("\x7f", view)
    assert _press("\r", view)
    texts = [line.text for line in screen(status(), view, 80, 24)]
    assert not any(text.startswith(("naming/", "ingresses")) for text in texts)
    assert any(text.startswith("pods labels=a=b") for text in texts)
    assert _press("\x1b", view)
    assert (view.filter, view.typing) == ("", False)
    assert _press("e", view)
    assert view.errors
    assert _press("s", view)
    assert view.order == "rate"
    assert not _press("q", view)


@pytest.mark.behaviour("operations/OP49")
def test_errors_of_plugins_are_text() -> None:
    bad = "ValueError: <script> \x1b[31m{{\nsecond line"
    error = {
        "time": "2026-01-05T03:59:58.000Z",
        "controller": "naming/names",
        "key": "a\x1b]0;title\x07",
        "reconcile_id": "0-1",
        "type": "ValueError",
        "message": bad,
        "place": "a.py:1",
    }
    texts = [line.text for line in screen(status(errors=[error]), View(errors=True), 200, 24)]
    (line,) = (text for text in texts if text.startswith("03:59:58"))
    assert r"ValueError: <script> \x1b[31m{{\nsecond line (a.py:1)" in line
    assert r"a\x1b]0;title\x07" in line
    assert all(text.isprintable() for text in texts)


def webhook(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "path": f"/validate/guard/{name}",
        "plugin": "guard",
        "per_second": 2.0,
        "total": 1200,
        "errors": 3,
        "denied": 40,
        "in_flight": 1,
        "overdue": 0,
        "p50": 0.002,
        "p99": 0.5,
    } | fields


def test_webhooks_are_shown_where_there_are_some() -> None:
    """The specification asks for them in `top`; a host of an older version does not send any."""
    assert not any("WEBHOOK" in line for line in whole(status(), View()))
    shown = whole(status(webhooks=[webhook("size"), webhook("zone", overdue=8)]), View())
    lines = [line for line in shown if "/validate/guard/" in line]
    assert [line.split()[0] for line in lines] == ["/validate/guard/size", "/validate/guard/zone"]
    for part in ("1,200", "40", "500ms"):
        assert part in lines[0]
    assert lines[0].rstrip().endswith("ok")
    assert lines[1].rstrip().endswith("8 stuck")
    drawn = [
        line
        for line in screen(status(webhooks=[webhook("zone", overdue=8)]), View(), 100, 40)
        if "8 stuck" in line.text
    ]
    assert [line.style for line in drawn] == ["red"]
