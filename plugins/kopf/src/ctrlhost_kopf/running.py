"""How an operator is run: `kopf.run` and its kin register a file as an operator, and wait for its end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import logging
import os
from contextvars import ContextVar
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_kopf.settings import OperatorSettings
from ctrlhost_kopf.unsupported import NotSupported

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ctrlhost_kopf.plugin import Operator

log = logging.getLogger("kopf")

#: The operator whose file is imported in this context; else the last one of the process.
current: ContextVar[Operator | None] = ContextVar("ctrlhost_kopf_operator_of_file", default=None)
_last: Operator | None = None

#: What `kopf.run` takes over, and what the host has instead of the rest.
_HONOURED = ("registry", "settings", "memo", "lifecycle")
_INSTEAD = {
    **dict.fromkeys(("standalone", "priority", "peering_name", "identity"), "--leader-elect"),
    **dict.fromkeys(("clusterwide", "namespaces", "namespace"), "--namespace"),
    **dict.fromkeys(("loop", "vault", "stop_flag"), ""),
    "liveness_endpoint": "--listen",
}
#: The parts of the settings that the host has its own for.
_IGNORED = ("process", "peering", "watching", "queueing", "batching", "scanning", "admission", "networking")


class LoginError(Exception):
    """Raised by handlers of `kopf.on.login`, which the host does not call."""


class ConnectionInfo(SimpleNamespace):
    """What handlers of `kopf.on.login` return, which the host does not call."""


class AiohttpSession(ConnectionInfo):
    """As `ConnectionInfo`."""


def login_via_client(**_: Any) -> None:
    """Do nothing: the host's credentials count."""


login_via_pykube = login_via_async_client = login_with_kubeconfig = login_with_service_account = login_via_client


def configure(**_: Any) -> None:
    """Log that this has no effect: the host writes the log, as its settings say."""
    log.info("no effect of kopf.configure: the host writes the log")


def set_current(operator: Operator) -> None:
    """Make `kopf.run` in this context, and on threads without one, run this operator."""
    global _last
    _last = operator
    current.set(operator)


def run(**options: Any) -> None:
    """Run the operator of this file: return when the plugin has ended."""
    _claim(options).stopped.result()


async def operator(**options: Any) -> None:
    """Run the operator of this file: return when the plugin has ended."""
    await _until_stopped(_claim(options))


async def spawn_tasks(**options: Any) -> Collection[asyncio.Task[None]]:
    """Run the operator of this file: the task ends when the plugin has ended."""
    return [asyncio.create_task(_until_stopped(_claim(options)), name="operator")]


async def run_tasks(root_tasks: Collection[asyncio.Task[None]], *, ignored: Collection[asyncio.Task[Any]] = ()) -> None:  # noqa: ARG001 - kopf's
    """Wait for what `spawn_tasks` has returned."""
    await asyncio.gather(*root_tasks)


async def _until_stopped(operator: Operator) -> None:
    await asyncio.shield(asyncio.wrap_future(operator.stopped))


def _claim(options: dict[str, Any]) -> Operator:
    """Take the options over, and let the plugin begin; NotSupported for unknown ones, and outside of a host."""
    operator = current.get() or _last
    if operator is None:
        raise NotSupported("kopf.run outside of `ctrlhost run --kopf`", section="run")
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    ready = given.pop("ready_flag", None)
    for name, value in given.items():
        if name in _HONOURED:
            setattr(operator, name, value)
        elif name not in _INSTEAD:
            raise NotSupported(f"the argument `{name}` of kopf.run", section="run")
    if ignored := [name for name in given if name in _INSTEAD]:
        instead = " and ".join(sorted({f"`ctrlhost run {flag}`" for name in ignored if (flag := _INSTEAD[name])}))
        log.info("kopf.run: no effect of %s%s", ", ".join(ignored), f": see {instead}" if instead else "")
    if ready is not None:
        loop = asyncio.get_running_loop() if isinstance(ready, (asyncio.Event, asyncio.Future)) else None
        operator.ready.add_done_callback(lambda _: _raise_flag(ready, loop))
    operator.claimed.set()
    return operator


def _raise_flag(flag: Any, loop: asyncio.AbstractEventLoop | None) -> None:
    """Set an event, or resolve a future, of threads or of a loop."""
    if isinstance(flag, (asyncio.Future, concurrent.futures.Future)):
        action: Any = lambda: flag.done() or flag.set_result(None)  # noqa: E731
    else:
        action = flag.set
    loop.call_soon_threadsafe(action) if loop is not None else action()


def set_up(operator: Operator, host: ctrlhost.PluginContext) -> None:
    """Register health checks: `kopf.on.probe`, and whether `kopf.on.startup` has not failed."""

    def startup() -> None:
        if operator.startup_error:
            raise ctrlhost.PluginError(operator.name, operator.startup_error)

    def probe() -> None:
        host.submit(operator.run_activity("probe")).result()

    activities = operator.registry.activities
    for name, check in (("startup", startup), ("probe", probe)):
        if activities[name]:
            host.add_health_check(name, check)


async def report(operator: Operator) -> None:
    """Log in a line each what has no effect, and configure the official clients as kopf's login does."""
    if operator.registry.activities["login"]:
        log.info("%s: kopf.on.login has no effect: the credentials of the host count", operator.name)
    for part, names in _without_effect(operator.settings):
        instead = "`ctrlhost run --leader-elect` elects a leader" if part == "peering" else "the host has its own"
        log.info("%s: no effect of settings.%s: %s: %s", operator.name, part, ", ".join(names), instead)
    for library in ("kubernetes", "kubernetes_asyncio"):
        if library in operator.libraries:
            await asyncio.to_thread(_configure, library)


def _without_effect(settings: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts with settings that were changed and have no effect, or that kopf does not have."""
    defaults = OperatorSettings()
    for part, own in vars(settings).items():
        known = vars(getattr(defaults, part)) if hasattr(defaults, part) else {}
        values = vars(own) if hasattr(own, "__dict__") else {"": own}
        ignored = known.keys() - {"error_delays"} if part in _IGNORED else ()
        names = [name for name in values if name not in known or (name in ignored and values[name] != known[name])]
        if names:
            yield part, names


def _configure(library: str) -> None:
    """Load the default configuration of a client library, as far as there is one."""
    config = importlib.import_module(f"{library}.config")
    try:
        config.load_incluster_config()
    except config.ConfigException:
        try:
            # Named, since the library reads the variable only when it is imported.
            loading = config.load_kube_config(os.environ.get("KUBECONFIG"))
            if loading is not None:
                asyncio.run(loading)
        except config.ConfigException as error:
            log.warning("%s finds no configuration: %s", library, error)
