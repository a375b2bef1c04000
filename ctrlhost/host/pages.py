"""Pages and listeners of plugins, which answer from the event loops of their plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ctrlhost.server.relay import relayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from ctrlhost.entries import Entry
    from ctrlhost.plugin.context import PluginContext


def on_loop(context: PluginContext, kind: Literal["page", "listener"], name: str, app: ASGIApp) -> ASGIApp:
    """Return an application that runs `app`, a page or a listener of a plugin, as an entry on the plugin's loop."""

    def opened(on_overrun: Callable[[Entry], None]) -> Entry:
        # All of them share the thread of the loop.
        return context.scope.entries.open(kind, late="dropped", on_overrun=on_overrun, costs_thread=False)

    return relayed(app, context.scope.loop, f"plugin {context.name}: the {kind} {name}", opened)
