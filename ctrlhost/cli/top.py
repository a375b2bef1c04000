"""`ctrlhost top`: what a running host does, live or once."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING

import click

from ctrlhost.cli.messages import print_hint
from ctrlhost.cli.overview import ORDERS, Overview, header
from ctrlhost.cli.running_host import RunningHost, print_json, reading
from ctrlhost.duration import Duration

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds; the host renews its state four times a second.
_LEAST_INTERVAL = 0.25


@click.command("top")
@click.option("--interval", metavar="TIME", default="2s", show_default=True, help="Time between two looks at the host.")
@click.option("--once", is_flag=True, help="Print the tables once, without limits of width.")
@click.option(
    "--sort",
    "order",
    type=click.Choice(ORDERS),
    default=ORDERS[0],
    show_default=True,
    help="Column to sort the controllers by; by `state` the worst are first.",
)
@reading
def command(interval: str, once: bool, order: str, url: str | None, socket: Path | None, output: str) -> int:
    """Show what a running host does: the state of the host, why keys fail, its controllers and its informers.

    On a terminal the view is live, if the package `textual` is installed (`pip install ctrlhost[top]`): Enter opens
    what the cursor is on, Escape goes back, `/` filters by a text, `s` sorts by the next column, `p` pauses a
    controller, `e` enqueues a key, `?` explains the keys, `q` and Ctrl-C quit. Rates and quantiles are those of the
    last minute. Without a terminal or `textual`, the tables are printed once.
    """
    seconds = _seconds(interval)
    try:
        host = RunningHost(url, socket)
        body = host.get("/status")
        if output == "json":
            print_json(body)
            return 0
        status = host.read(body)
        if not once and _can_draw():
            from ctrlhost.cli.live import Live

            live = Live(url, socket, status, seconds, order)
            # Without the mouse, the terminal selects texts as usual.
            live.run(mouse=False)
            return live.return_code or 0
        rows = [*header(status, None), *Overview(order).rows(status, {}, None)]
        click.echo("\n".join(line for row in rows for line in row.lines))
        if not once and sys.stdout.isatty() and not _has_textual():
            print_hint("the live view needs the package `textual`: `pip install ctrlhost[top]`")
    except KeyboardInterrupt:
        pass
    return 0


def _can_draw() -> bool:
    able = os.environ.get("TERM", "") not in ("", "dumb", "unknown") and _has_textual()
    return able and sys.stdin.isatty() and sys.stdout.isatty()


def _has_textual() -> bool:
    return importlib.util.find_spec("textual") is not None


def _seconds(interval: str) -> float:
    try:
        seconds = float(Duration(interval))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--interval") from None
    if seconds < _LEAST_INTERVAL:
        raise click.BadParameter(f"at least {Duration(_LEAST_INTERVAL)}, got {interval}", param_hint="--interval")
    return seconds
