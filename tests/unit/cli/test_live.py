"""The live view of `ctrlhost top`: cursor, views, filter and actions, in a terminal of textual's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ctrlhost.cli import looks
from ctrlhost.cli.live import Live, Question
from ctrlhost.errors import CtrlhostError
from tests.unit.cli.statuses import cause, controller, failing, page, status
from tests.unit.cli.test_details import TRACEBACK, key_status

pytestmark = pytest.mark.behaviour("oncall/OC13")

#: Seconds after which a condition will never hold.
LIMIT = 60.0
SIZES = [(80, 24), (200, 50)]


class FakeHost:
    """A host that answers for `shop/order`, and notes what it is asked to do."""

    down = ""
    refusal: CtrlhostError | None = None
    many = 0

    def __init__(self) -> None:
        self.acted: list[tuple[str, dict[str, Any]]] = []
        self.paused = False

    def status(self, timeout: float | None = None) -> Any:
        if self.down:
            raise CtrlhostError(self.down)
        rest = [controller(f"many/c{number:02}") for number in range(self.many)]
        order = failing("shop/order", 771, 1200, paused=self.paused)
        return status(controllers=[order, controller("naming/calm"), *rest])

    def get(self, path: str, timeout: float | None = None) -> bytes:
        return path.encode()

    def read(self, body: bytes) -> Any:
        path = body.decode()
        if path.startswith("/causes/"):
            detail = {"cause": cause("shop/order", 771), "traceback": TRACEBACK, "failing": []}
            return {"items": [detail], "total": 1}
        if path.startswith("/keys/"):
            return key_status()
        return page("orders/a1", "orders/a2") if "failing" in path else page() if path.startswith("/queues") else ACTED

    def act(self, action: str, body: dict[str, Any]) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        self.acted.append((action, body))
        return b"acted"


ACTED = {"queued": 1, "warnings": [], "changed": True, "controllers": [], "running": 0}


class Screen:
    """What the view shows, and the keys of its user."""

    def __init__(self, app: Live, pilot: Any) -> None:
        self.app, self.pilot = app, pilot

    @property
    def lines(self) -> list[str]:
        """The lines as drawn."""
        base = self.app.screen_stack[0]
        return [strip.text.rstrip() for strip in base._compositor.render_strips()]

    @property
    def cursor(self) -> str:
        """The first line of the row with the cursor."""
        at = self.app._rows.highlighted
        return "" if at is None else self.app._rows.drawn[at].lines[0]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def wait_for(self, *texts: str, without: str = "") -> list[str]:
        """Wait until the screen has each of these texts."""

        def complete() -> bool:
            shown = "\n".join(self.lines)
            return all(text in shown for text in texts) and (not without or without not in shown)

        await self.until(complete)
        return self.lines

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(LIMIT):
            while not condition():
                await self.pilot.pause(0.01)


def drive(
    monkeypatch: pytest.MonkeyPatch,
    host: FakeHost,
    use: Callable[[Screen], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    url: str | None = None,
) -> None:
    """Run the view on a host, and use it."""
    monkeypatch.setattr(looks, "RunningHost", lambda *_: host)

    async def run() -> None:
        app = Live(url, None, host.status(), 0.05, "state")
        async with app.run_test(size=size) as pilot:
            await use(Screen(app, pilot))

    asyncio.run(run())


@pytest.mark.behaviour("oncall/OC12")
@pytest.mark.parametrize("size", SIZES)
def test_the_first_screen(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async def use(screen: Screen) -> None:
        lines = await screen.wait_for("q quit", "shop/order", "watching")
        assert len(lines) == size[1]
        for part in ("ready", "cpu 3%", "rss 104MiB"):
            assert part in lines[0]
        assert "771 of 1,300 keys fail, 1 cause" in lines[1]
        assert lines[2].split()[:2] == ["KEYS", "CONTROLLER"]
        # The worst is under the cursor.
        assert screen.cursor.split()[:2] == ["771", "shop/order"]
        assert not any("…" in line for line in lines)

    drive(monkeypatch, FakeHost(), use, size)


@pytest.mark.parametrize("size", SIZES)
def test_enter_opens_and_escape_goes_back(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async def use(screen: Screen) -> None:
        await screen.wait_for("q quit")
        await screen.press("enter")
        await screen.wait_for("TRACEBACK of orders/a1", "line 12, in reconcile", "Esc back")
        await screen.press("end")
        assert screen.cursor.startswith("orders/a2")
        await screen.press("up", "enter")
        await screen.wait_for("shop/order orders/a1", "verdict", "last runs")
        await screen.press("escape")
        await screen.wait_for("TRACEBACK of orders/a1")
        # The cursor is where it was.
        assert screen.cursor.startswith("orders/a1")
        await screen.press("escape")
        await screen.wait_for("s sort")
        await screen.press("down")
        assert screen.cursor.startswith("shop/order")
        await screen.press("enter")
        await screen.wait_for("workers", "0 pending", "orders/a2")
        await screen.press("escape", "escape", "escape")
        assert screen.app.is_running
        await screen.wait_for("s sort")

    drive(monkeypatch, FakeHost(), use, size)


def test_the_rows_scroll_and_keep_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    host.many = 60

    async def use(screen: Screen) -> None:
        await screen.wait_for("many/c01", without="many/c50")
        await screen.press("end")
        await screen.wait_for("pods ", without="many/c01")
        assert screen.cursor.startswith("pods")
        # Another look changes nothing of that.
        host.many = 61
        await screen.until(lambda: any(row.name == "many/c60" for row in screen.app._rows.drawn))
        await screen.wait_for("pods ", without="many/c01")
        assert screen.cursor.startswith("pods")
        await screen.press("home", "j", "k")
        await screen.wait_for("many/c01")
        assert screen.cursor.split()[0] == "771"

    drive(monkeypatch, host, use)


def test_a_filter_and_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(screen: Screen) -> None:
        await screen.wait_for("naming/calm", "pods")
        await screen.press("slash", *"CALM")
        await screen.wait_for("naming/calm", "/ filter: CALM", without="pods")
        # Keys are text now.
        await screen.press("q", "backspace", "enter")
        await screen.wait_for("naming/calm", without="pods")
        assert screen.cursor.startswith("naming/calm")
        await screen.press("escape")
        await screen.wait_for("naming/calm", "pods")
        await screen.press("s")
        lines = await screen.wait_for("s sort: name")
        names = [line.split()[0] for line in lines if line.startswith(("naming/", "shop/"))]
        assert names == ["naming/calm", "shop/order"]

    drive(monkeypatch, FakeHost(), use)


def test_help_has_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(screen: Screen) -> None:
        await screen.wait_for("? help")
        await screen.press("question_mark")
        await screen.wait_for("pause the controller", "enqueue the key", "sort the controllers", "Escape")
        await screen.press("escape")
        await screen.wait_for("s sort")
        await screen.press("q")
        await screen.until(lambda: not screen.app.is_running)

    drive(monkeypatch, FakeHost(), use)


def test_pause_asks_first_and_resumes_what_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    target = {"plugin": "shop", "controller": "order"}

    async def use(screen: Screen) -> None:
        await screen.wait_for("shop/order")
        await screen.press("p")
        await screen.until(lambda: isinstance(screen.app.screen, Question))
        await screen.press("n")
        await screen.press("p")
        await screen.until(lambda: isinstance(screen.app.screen, Question))
        assert host.acted == []
        await screen.press("y")
        await screen.until(lambda: host.acted == [("pause", target)])
        host.paused = True
        paused = lambda: any(row["paused"] for row in screen.app._look.status["controllers"])  # noqa: E731
        await screen.until(paused)
        await screen.press("p")
        await screen.until(lambda: isinstance(screen.app.screen, Question))
        await screen.press("y")
        await screen.until(lambda: host.acted[1:] == [("resume", target)])

    drive(monkeypatch, host, use)


def test_enqueue_takes_the_key_under_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()

    async def use(screen: Screen) -> None:
        await screen.wait_for("shop/order")
        await screen.press("e")
        await screen.until(lambda: said(screen, "move the cursor to a key first"))
        await screen.press("enter")
        await screen.wait_for("TRACEBACK")
        await screen.press("end", "e")
        await screen.until(lambda: host.acted == [("enqueue", {"controller": "shop/order", "keys": ["orders/a2"]})])
        await screen.until(lambda: said(screen, "queued 1 key of shop/order"))
        host.refusal = CtrlhostError("the admin API is off", hint="run the host with --admin")
        await screen.press("e")
        await screen.until(lambda: said(screen, "the admin API is off (run the host with --admin)"))

    drive(monkeypatch, host, use)


def test_by_url_nothing_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()

    async def use(screen: Screen) -> None:
        await screen.wait_for("shop/order")
        await screen.press("p", "y")
        await screen.until(lambda: said(screen, "leave --url out"))
        assert host.acted == []

    drive(monkeypatch, host, use, url="http://127.0.0.1:1")


def said(screen: Screen, text: str) -> bool:
    return any(text in notification.message for notification in screen.app._notifications)


@pytest.mark.behaviour("oncall/OC12")
def test_after_the_death_of_the_host_the_header_has_the_age_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()

    async def use(screen: Screen) -> None:
        await screen.wait_for("shop/order", "ready")
        host.down = "no host at /run/1.sock: connection refused"
        lines = await screen.wait_for("connection lost, data of ", "trying again: no host at")
        assert "LOST" in lines[0]
        # What was seen last stays, and can be looked at.
        await screen.press("down")
        assert screen.cursor.startswith("shop/order")
        host.down = ""
        await screen.wait_for("ready", without="connection lost")

    drive(monkeypatch, host, use)
