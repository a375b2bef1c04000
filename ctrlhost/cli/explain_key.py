"""`ctrlhost explain-key`: why a running host does not reconcile a key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from ctrlhost.cli.amounts import clock_time, duration, since
from ctrlhost.cli.completing import complete_controller, complete_key
from ctrlhost.cli.running_host import RunningHost, parse_controller, print_json, reading
from ctrlhost.cli.table import visible

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctrlhost.cli.running_host import Answer

#: Reconciles that are printed; the JSON has more.
_RUNS = 5
#: The verdicts of keys that `ctrlhost enqueue` gets going again.
_WAITING = ("backing off", "gave up")


@click.command("explain-key")
@click.argument("controller", metavar="PLUGIN/CONTROLLER", shell_complete=complete_controller)
@click.argument("key", metavar="[NAMESPACE/]NAME", shell_complete=complete_key)
@reading
def command(controller: str, key: str, url: str | None, socket: Path | None, output: str) -> None:
    """Print why a running host does not reconcile a key: the verdict, the facts for it, and its last reconciles.

    Of a key that fails, the traceback of the last failure follows, and the command that queues it again.
    """
    host = RunningHost(url, socket)
    body = host.get(f"/keys/{parse_controller(controller)}?{urlencode({'key': key})}")
    if output == "json":
        print_json(body)
        return
    answer = host.read(body)
    click.echo(f"{visible(controller)} {visible(key)}")
    for name, text in facts_of_key(controller, key, answer, datetime.now(UTC).isoformat()):
        click.echo(f"  {name:<10} {visible(text)}".rstrip())
    if text := traceback_of(answer):
        click.echo("\n" + "\n".join(visible(line) for line in text.splitlines()))


def facts_of_key(controller: str, key: str, answer: Answer, now: str) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of what is known of a key; a text without a name continues the one before."""
    first, *others = answer["facts"] or [""]
    yield "verdict", f"{answer['verdict']}: {first}" if first else answer["verdict"]
    yield from (("", fact) for fact in others)
    if (begin := answer["since"]) is not None:
        yield "since", f"{begin} ({duration(max(since(begin, now), 0.0))} ago)"
    if (failing := answer["failing"]) is not None:
        yield "fails", f"since {failing['since']} ({duration(max(since(failing['since'], now), 0.0))} ago)"
    for at, run in enumerate(answer["reconciles"][:_RUNS]):
        failed = f": {run['error']}" if run["error"] else ""
        text = f"{clock_time(run['time'])}, {duration(run['seconds'])}, {run['result']}{failed}"
        yield "" if at else "last runs", f"{text}  ({run['reconcile_id']})"
    if (obj := answer["object"]) is not None:
        yield from _of_object(obj)
    if answer["verdict"] in _WAITING:
        yield "try again", f"`ctrlhost enqueue {controller} {key}`, once the cause is mended"


def traceback_of(answer: Answer) -> str:
    """Return the traceback of the key's last failure; empty if it does not fail."""
    return str(answer["failing"]["traceback"]) if answer["failing"] is not None else ""


def _of_object(obj: Answer) -> Iterator[tuple[str, str]]:
    cached, generation, observed = obj["cached_version"], obj["generation"], obj["observed_generation"]
    of_cache = "not cached" if cached is None else f"cached rv={cached}"
    if generation is not None:
        of_cache += f" generation={generation}"
    of_server = f"server rv={obj['server_version']}" if obj["server"] == "found" else f"server: {obj['server']}"
    yield "object", "; ".join([of_cache, of_server, *_assignment("status.observedGeneration", observed)])
    begin = obj["deleted_since"]
    if begin is not None and not any(finalizer["present"] for finalizer in obj["finalizers"]):
        yield "", f"its deletion was asked for at {begin}"
    for at, finalizer in enumerate(obj["finalizers"]):
        own = " (this plugin)" if finalizer["own"] else ""
        state = (
            "absent"
            if not finalizer["present"]
            else "present"
            if begin is None
            else f"holds the deletion since {begin}"
        )
        yield "" if at else "finalizers", f"{finalizer['name']}{own} {state}"


def _assignment(name: str, value: int | None) -> list[str]:
    return [] if value is None else [f"{name}={value}"]
