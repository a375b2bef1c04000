"""`ctrlhost top`: what a running host does, live or once."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from typing import TYPE_CHECKING

import click

from ctrlhost.cli.messages import describe, print_hint
from ctrlhost.cli.running_host import RunningHost, print_json, reading
from ctrlhost.cli.screen import ORDERS, View, screen, whole
from ctrlhost.duration import Duration
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.cli.keyboard import Keyboard
    from ctrlhost.cli.running_host import Answer

#: Seconds; the host renews its state four times a second.
_LEAST_INTERVAL = 0.25
#: Seconds for an answer, after which the view says that the host is silent.
_PATIENCE = 3.0
_ERASE = ("\x7f", "\x08")


@click.command("top")
@click.option("--interval", metavar="TIME", default="2s", show_default=True, help="Time between two looks at the host.")
@click.option("--once", is_flag=True, help="Print the table once, without limits of width.")
@click.option(
    "--sort", "order", type=click.Choice(ORDERS), default="name", show_default=True, help="Column to sort by."
)
@reading
def command(interval: str, once: bool, order: str, url: str | None, socket: Path | None, output: str) -> None:
    """Show what a running host does: the state of the host, its controllers and its informers.

    On a terminal the view is live, if the package `rich` is installed (`pip install ctrlhost[top]`): `s` sorts by the
    next column, `/` filters by a text, `e` shows the failing keys and the last errors, `q` and Ctrl-C quit. Rates and
    quantiles are those of the last minute. Without a terminal or `rich`, the table is printed once.
    """
    seconds = _seconds(interval)
    view = View(order)
    try:
        host = RunningHost(url, socket)
        body = host.get("/status")
        if output == "json":
            print_json(body)
            return
        if not once and _can_draw():
            _show(Looks(url, socket, host.read(body), seconds), view)
            return
        click.echo("\n".join(whole(host.read(body), view)))
        if not once and sys.stdout.isatty() and importlib.util.find_spec("rich") is None:
            print_hint("the live view needs the package `rich`: `pip install ctrlhost[top]`")
    except KeyboardInterrupt:
        return


class Looks:
    """The newest state of a host, which a thread of its own asks for again and again."""

    def __init__(self, url: str | None, socket: Path | None, first: Answer, interval: float) -> None:
        """Begin with the state `first`; the thread asks each `interval` seconds."""
        self.status = first
        #: Why the last look failed; empty if it did not.
        self.lost = ""
        self._url = url
        self._socket = socket
        self._interval = interval
        self._ended = threading.Event()

    def start(self, keyboard: Keyboard) -> None:
        """Start the thread, which wakes `keyboard` after each look."""
        threading.Thread(target=self._run, args=(keyboard,), name="looks", daemon=True).start()

    def stop(self) -> None:
        """Wake nobody any longer."""
        self._ended.set()

    def _run(self, keyboard: Keyboard) -> None:
        while not self._ended.wait(self._interval):
            try:
                # A host that was started anew has another socket.
                self.status = RunningHost(self._url, self._socket).status(_PATIENCE)
                self.lost = ""
            except CtrlhostError as error:
                self.lost = describe(error)
            if not self._ended.is_set():
                keyboard.wake()


def _show(looks: Looks, view: View) -> None:
    """Draw until the user quits."""
    from rich.console import Console
    from rich.control import Control
    from rich.text import Text

    from ctrlhost.cli.keyboard import Keyboard

    console = Console(highlight=False)
    with Keyboard() as keyboard, console.screen() as drawn:
        looks.start(keyboard)
        try:
            while True:
                lines = screen(looks.status, view, console.width, console.height, looks.lost)
                texts = [Text(line.text, line.style, no_wrap=True, overflow="crop", end="") for line in lines]
                console.control(Control.home())
                drawn.update(Text("\n", no_wrap=True, overflow="crop", end="").join(texts))
                for key in keyboard.wait():
                    if not _press(key, view):
                        return
        except EOFError:
            return
        finally:
            looks.stop()


def _press(key: str, view: View) -> bool:
    """Apply a key; return False for the one that quits."""
    if view.typing:
        if key in "\r\n":
            view.typing = False
        elif key == "\x1b":
            view.typing, view.filter = False, ""
        elif key in _ERASE:
            view.filter = view.filter[:-1]
        elif key.isprintable():
            view.filter += key
        return True
    match key:
        case "s":
            view.sort()
        case "/":
            view.typing = True
        case "e":
            view.errors = not view.errors
        case "\x1b":
            view.filter = ""
    return key != "q"


def _can_draw() -> bool:
    able = os.environ.get("TERM", "") not in ("", "dumb", "unknown") and importlib.util.find_spec("rich") is not None
    return able and sys.stdin.isatty() and sys.stdout.isatty()


def _seconds(interval: str) -> float:
    try:
        seconds = float(Duration(interval))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--interval") from None
    if seconds < _LEAST_INTERVAL:
        raise click.BadParameter(f"at least {Duration(_LEAST_INTERVAL)}, got {interval}", param_hint="--interval")
    return seconds
