"""A plugin whose reconciles compute a millisecond in Python, again and again; its page says how many it has done."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import ctrlhost

#: About a millisecond.
STEPS = 20_000


class Counted:
    """One plugin's reconciles; several plugins of a process are this module."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._done = 0

    def reconcile(self, _ctx: ctrlhost.Context, _request: ctrlhost.Request) -> ctrlhost.Result:
        value = 0
        for number in range(STEPS):
            value = (value * 31 + number) % 1_000_003
        self._done = next(self._numbers)
        return ctrlhost.Result(requeue_after=0.001)

    async def page(self, _scope: Any, _receive: Any, send: Any) -> None:
        """Answer with the time and the number of reconciles."""
        body = json.dumps([time.monotonic(), self._done]).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    counted = Counted()
    plugin.add_controller("compute", counted.reconcile, ctrlhost.For("v1", "Pod"))
    plugin.add_page("/done", counted.page)
