"""`ctrlhost profile`: what a running host spends its processor time on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.completing import complete_installed
from ctrlhost.cli.messages import print_hint
from ctrlhost.cli.running_host import RunningHost, acting, print_json
from ctrlhost.cli.table import visible

if TYPE_CHECKING:
    from pathlib import Path


@click.command("profile")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="How long to sample, at most 45.")
@click.option(
    "--plugin",
    metavar="NAME",
    shell_complete=complete_installed,
    help="Only the threads, or the process, of this plugin.",
)
@click.option("--heap", is_flag=True, help="Print the largest allocations of this time instead; slows the host down.")
@acting
def command(seconds: float, plugin: str | None, heap: bool, socket: Path | None, output: str) -> None:
    """Print what a running host spends its processor time on, as folded stacks for a flame graph.

    Each line is a stack and its microseconds: process, thread, and the functions from the outermost one. Open the file
    at speedscope.app, or with `flamegraph.pl`. The host samples its threads of Python 50 times a second, and those of
    isolated plugins; it needs no right to trace processes. It must run with --admin.
    """
    host = RunningHost(path=socket)
    body = host.act("profile", {"seconds": seconds, "heap": heap} | ({} if plugin is None else {"plugin": plugin}))
    if output == "json":
        print_json(body)
        return
    answer = host.read(body)
    stacks = sorted(answer["stacks"].items(), key=lambda stack: -stack[1])
    lines = answer["heap"] if heap else [f"{stack} {spent}" for stack, spent in stacks]
    for line in lines:
        click.echo(visible(line))
    spent = sum(answer["stacks"].values()) / 1e6
    print_hint(f"{answer['samples']} samples, {spent:.3f} s of processor time")
