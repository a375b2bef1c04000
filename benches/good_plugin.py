"""The plugin that is measured: a no-op reconciler of pods that notes how long each event took to reach it."""

from __future__ import annotations

import json
import time
from typing import Any

import ctrlhost

latencies: list[int] = []
newest = 0


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    plugin.add_controller("pods", reconcile, ctrlhost.For("v1", "Pod"))
    plugin.add_page("/latencies", answer)


def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
    global newest
    now = time.monotonic_ns()
    pod = ctx.get(request)
    # It is 0 in what was listed.
    if pod is not None and (sent := int(pod.annotations.get("sent", 0))):
        latencies.append(now - sent)
        newest = max(newest, int(pod.resource_version))


async def answer(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer with the newest version that was reconciled, and the latencies in nanoseconds."""
    body = json.dumps({"newest": newest, "latencies": latencies}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})
