"""`ctrlhost explain-key`: why a running host does not reconcile a key."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from ctrlhost.cli.amounts import clock_time, duration
from ctrlhost.cli.running_host import RunningHost, parse_controller, print_json, reading
from ctrlhost.cli.table import visible

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctrlhost.cli.running_host import Answer

#: Reconciles that are printed; the JSON has more.
_RUNS = 5


@click.command("explain-key")
@click.argument("controller", metavar="PLUGIN/CONTROLLER")
@click.argument("key", metavar="[NAMESPACE/]NAME")
@reading
def command(controller: str, key: str, url: str | None, socket: Path | None, output: str) -> None:
    """Print why a running host does not reconcile a key: the verdict, the facts for it, and the last reconciles."""
    host = RunningHost(url, socket)
    body = host.get(f"/keys/{parse_controller(controller)}?{urlencode({'key': key})}")
    if output == "json":
        print_json(body)
        return
    click.echo(f"{visible(controller)} {visible(key)}")
    for name, text in _lines(host.read(body)):
        click.echo(f"  {name:<10} {visible(text)}".rstrip())


def _lines(answer: Answer) -> Iterator[tuple[str, str]]:
    first, *others = answer["facts"] or [""]
    yield "verdict", f"{answer['verdict']}: {first}" if first else answer["verdict"]
    yield from (("", fact) for fact in others)
    if answer["since"] is not None:
        yield "since", answer["since"]
    for at, run in enumerate(answer["reconciles"][:_RUNS]):
        failed = f": {run['error']}" if run["error"] else ""
        text = f"{clock_time(run['time'])}, {duration(run['seconds'])}, {run['result']}{failed}"
        yield "" if at else "last runs", f"{text}  ({run['reconcile_id']})"
    if (obj := answer.get("object")) is not None:
        yield from _of_object(obj)


def _of_object(obj: Answer) -> Iterator[tuple[str, str]]:
    cached, generation, observed = obj["cached_version"], obj["generation"], obj["observed_generation"]
    of_cache = "not cached" if cached is None else f"cached rv={cached}"
    if generation is not None:
        of_cache += f" generation={generation}"
    of_server = f"server rv={obj['server_version']}" if obj["server"] == "found" else f"server: {obj['server']}"
    yield "object", "; ".join([of_cache, of_server, *_assignment("status.observedGeneration", observed)])
    since = obj["deleted_since"]
    if since is not None and not any(finalizer["present"] for finalizer in obj["finalizers"]):
        yield "", f"its deletion was asked for at {since}"
    for at, finalizer in enumerate(obj["finalizers"]):
        own = " (this plugin)" if finalizer["own"] else ""
        state = (
            "absent"
            if not finalizer["present"]
            else "present"
            if since is None
            else f"holds the deletion since {since}"
        )
        yield "" if at else "finalizers", f"{finalizer['name']}{own} {state}"


def _assignment(name: str, value: int | None) -> list[str]:
    return [] if value is None else [f"{name}={value}"]
