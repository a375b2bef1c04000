"""What a user does with kubectl, through the client: apply files, wait, read."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    import ctrlhost

ROOT = Path(__file__).parents[2]
LIMIT = 60.0


def fail(what: str, detail: str = "") -> NoReturn:
    """Print what failed and exit."""
    print(f"error: {what}\n{detail}", file=sys.stderr)
    raise SystemExit(1)


def documents(path: str) -> list[dict[str, Any]]:
    """Return the objects of an example file."""
    return [document for document in yaml.safe_load_all((ROOT / path).read_text(encoding="utf-8")) if document]


def apply(client: ctrlhost.Client, *paths: str) -> None:
    """Apply a file, like `kubectl apply -f`."""
    for path in paths:
        print(f"$ kubectl apply -f {path}", flush=True)
        for document in documents(path):
            client.apply(document, field_manager="demo")


def wait(check: Callable[[], object], what: str) -> None:
    """Poll the server until it shows the result of the controllers."""
    pause, end = threading.Event(), time.monotonic() + LIMIT
    while not check():
        if time.monotonic() > end:
            fail(f"not within {LIMIT:g} s: {what}")
        pause.wait(0.02)


def show(table: dict[str, str], indent: str = "    ") -> None:
    """Print a small table."""
    width = max([len(key) for key in table], default=0)
    for key, value in sorted(table.items()):
        print(f"{indent}{key:<{width}}  {value}")
    if not table:
        print(f"{indent}(none)")
    print(flush=True)
