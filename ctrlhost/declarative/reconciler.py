"""The function of a declared controller as a reconciler of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.declarative.async_context import AsyncContext
from ctrlhost.declarative.run import Run
from ctrlhost.transport.steps import awaiting, carry_out, carry_out_async

if TYPE_CHECKING:
    from ctrlhost.controller.context import Context
    from ctrlhost.declarative.hosted import HostedController
    from ctrlhost.request import Request

#: The options that the host knows, too.
_OPTIONS = ("workers", "timeout", "needs_leader", "retry", "rate_limiter", "suppress_echo", "shard_by")


class Reconciler:
    """Calls the function of a declared controller, in a `Run` for each request."""

    def __init__(self, hosted: HostedController) -> None:
        """Run a controller of one host."""
        self._hosted = hosted

    def register(self) -> None:
        """Add the controller to the host."""
        hosted = self._hosted
        if hosted.host.dry_run and hosted.finalizes:
            text = (
                "dry run: finalizer functions of %s have real effects outside Kubernetes unless they read `ctx.dry_run`"
            )
            hosted.host.log.warning(text, hosted.controller.name)
        declared = hosted.options
        options = {name: declared[name] for name in _OPTIONS if name in declared}
        reconcile = self.reconcile_async if hosted.controller.declared.is_async else self.reconcile
        hosted.host.add_controller(hosted.controller.name, reconcile, *hosted.sources(), **options)

    def reconcile(self, context: Context[Any, Any], request: Request) -> Any:  # noqa: ARG002 - it is in the context
        """Run a `def`; called by the host on a worker's thread."""
        context = context.of_run()
        run = context.declared = Run(self._hosted, context)
        try:
            if not carry_out(run.begin()):
                return None
            try:
                result = run.declared.function(context, run.obj)
            except BaseException as error:  # noqa: BLE001 - it is raised again
                return carry_out(run.end(None, error))
            return carry_out(run.end(result))
        finally:
            context.end()

    async def reconcile_async(self, context: Context[Any, Any], request: Request) -> Any:  # noqa: ARG002 - as above
        """Run an `async def`; called by the host on the plugin's event loop, in a task of its own."""
        awaiting.set("use ctx.client, which is awaited here")
        context = context.of_run()
        run = context.declared = Run(self._hosted, context)
        try:
            if not await carry_out_async(run.begin()):
                return None
            try:
                result = await run.declared.function(AsyncContext(run), run.obj)
            except BaseException as error:  # noqa: BLE001 - it is raised again
                return await carry_out_async(run.end(None, error))
            return await carry_out_async(run.end(result))
        finally:
            context.end()
