"""A reconciler that records its requests, and a plugin with it."""

from __future__ import annotations

from typing import Any

import ctrlhost
from ctrlhost import Request, Result
from tests.support.plugin_modules import plugin_of


class Seen:
    """A reconciler that records its requests and priorities, and optionally calls `act`."""

    def __init__(self, act: Any = None) -> None:
        self.requests: list[Request] = []
        self.priorities: list[int] = []
        self.act = act

    def __call__(self, ctx: ctrlhost.Context, request: Request) -> Result | None:
        self.requests.append(request)
        self.priorities.append(ctx.priority)
        return self.act(ctx, request) if self.act is not None else None

    def names(self) -> list[str]:
        return [request.name for request in self.requests]

    def forget(self) -> None:
        self.requests.clear()
        self.priorities.clear()


def controller(reconcile: Any, *sources: Any, **options: Any) -> Any:
    return plugin_of(lambda plugin: plugin.add_controller("c", reconcile, *sources, **options))
