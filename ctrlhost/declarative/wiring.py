"""The set-up of a declared plugin in a host: everything that it declares becomes a registration of its context."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.sources import Watches
from ctrlhost.declarative.checks import resolve_options
from ctrlhost.declarative.hosted import HostedController
from ctrlhost.declarative.reconciler import Reconciler
from ctrlhost.declarative.setup import call_setup
from ctrlhost.errors import PluginLoadError
from ctrlhost.transport.steps import awaiting

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from ctrlhost.declarative.declaration import Declaration, DeclaredFunction
    from ctrlhost.plugin.context import PluginContext


def set_up(declaration: Declaration, host: PluginContext, crds: Sequence[Mapping[str, Any]]) -> None:
    """Register what is declared, and call the functions for the set-up; `crds` are those of the plugin."""
    for controller in hosted_controllers(declaration, host, crds):
        Reconciler(controller).register()
    for function in declaration.setup:
        state = call_setup(function, host)
        if state is not None:
            host.state = state
    for task in declaration.tasks:
        _add_task(task, host)
    for check in declaration.health:
        host.add_health_check(check.options["name"], partial(check.function, host))
    for page in declaration.pages:
        host.add_page(page.options["path"], _page(page, host))
    for report in declaration.reports:
        host.add_report(report.options["path"], _with_host(report, host), title=report.options["title"])
    if declaration.webhooks or declaration.conversions:
        from ctrlhost.declarative.webhooks import add_webhooks

        add_webhooks(declaration, host, crds)
    if declaration.synced:
        host.start_together()


def hosted_controllers(
    declaration: Declaration, host: PluginContext, crds: Sequence[Mapping[str, Any]]
) -> list[HostedController]:
    """Return the enabled controllers; each reads the kinds of those indexes that no controller declares."""
    hosted = [HostedController(declared, host, declaration, crds) for declared in declaration.controllers]
    controllers = [controller for controller in hosted if controller.options.get("enabled", True)]
    declared = {source.reference[:2] for controller in controllers for source in controller.kinds}
    read = {index.kind[:2]: index.kind for index in declaration.indexes if index.kind[:2] not in declared}
    for controller in controllers:
        for kind in read.values():
            controller.read(Watches(kind.api_version, kind.kind))
    return controllers


def _page(declared: DeclaredFunction, host: PluginContext) -> Any:
    app = declared.function(host)
    if not callable(app):
        message = f"{declared.place}: {declared.name}: returned {app!r:.80}, which is no ASGI application"
        raise PluginLoadError(host.name, message, hint="return an application, such as `Starlette(routes=…)`")
    return app


def _add_task(declared: DeclaredFunction, host: PluginContext) -> None:
    options = resolve_options(declared, host)
    host.add_task(
        options["name"] or declared.name.replace("_", "-"),
        _with_host(declared, host),
        every=options["every"],
        first_after=options["first_after"],
        needs_leader=options["needs_leader"],
        until=options["until"],
    )


def _with_host(declared: DeclaredFunction, host: PluginContext) -> Callable[..., Any]:
    """Return the function with its first argument; an `async def` takes no other, and may not block its loop."""
    if not declared.is_async:
        return partial(declared.function, host)

    async def run(*_stop: threading.Event) -> Any:
        token = awaiting.set("await the methods of `ctrlhost.AsyncClient(host.client)`")
        try:
            return await declared.function(host)
        finally:
            # The server may call other functions in the same task.
            awaiting.reset(token)

    return run
