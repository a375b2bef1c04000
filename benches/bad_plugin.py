"""A plugin that misbehaves in the way that its name says; it watches the pods of the bench.

What hangs or computes does so until the process ends.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric

#: Threads that compute, keys that fail, series of a collector.
THREADS, KEYS, SERIES = 8, 20_000, 100_000


def hang(*_arguments: object) -> Any:
    threading.Event().wait()


hung = threading.Event()


def hang_once(*_arguments: object) -> None:
    if not hung.is_set():
        hung.set()
        hang()


def compute(*_arguments: object) -> Any:
    while True:
        pass


def nothing(_ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
    """Reconcile nothing."""


async def block_the_loop(*_arguments: object) -> None:
    time.sleep(3600)  # noqa: ASYNC251 - this is the misbehaviour


async def compute_on_the_loop(*_arguments: object) -> None:
    compute()


def fail(_ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
    raise RuntimeError("on purpose")


class Collector:
    """A collector whose `collect` is this function."""

    def __init__(self, collect: Callable[[], Any]) -> None:
        self.collect = collect

    def describe(self) -> list[Metric]:
        return []


def many_series() -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily("bad_series", "Too many.", labels=("number",))
    for number in range(SERIES):
        family.add_metric((str(number),), number)
    yield family


class Limiter:
    """A rate limiter that hangs."""

    def when(self, _key: object) -> float:
        hang()
        return 0.0

    def forget(self, _key: object) -> None:
        """Forget nothing."""

    def num_requeues(self, _key: object) -> int:
        return 0


def controller(reconcile: Any, *sources: Any, **options: Any) -> Callable[[ctrlhost.PluginContext], None]:
    watched = sources or (ctrlhost.For("v1", "Pod"),)
    return lambda plugin: plugin.add_controller("pods", reconcile, *watched, **options) and None


def of_the_informer(callback: Any, **informer: Any) -> Callable[[ctrlhost.PluginContext], None]:
    return lambda plugin: plugin.informer("v1", "Pod", **informer).add_handler(on_update=callback) and None


def threads(plugin: ctrlhost.PluginContext) -> None:
    for number in range(THREADS):
        plugin.add_task(f"compute-{number}", compute)


def keys() -> list[ctrlhost.Request]:
    return [ctrlhost.Request(f"key-{number}", "default") for number in range(KEYS)]


def page(app: Any) -> Callable[[ctrlhost.PluginContext], None]:
    return lambda plugin: plugin.add_page("/", app)


def map_of(function: Any) -> Callable[[ctrlhost.PluginContext], None]:
    return controller(nothing, ctrlhost.Watches("v1", "Pod", map=function))


HANGS: dict[str, Callable[[ctrlhost.PluginContext], None]] = {
    "import-hangs": lambda _plugin: None,
    "setup-hangs": hang,
    "hook-hangs": lambda _plugin: None,
    "reconcile-hangs": controller(hang),
    "async-reconcile-hangs": controller(block_the_loop),
    "map-hangs": map_of(hang),
    "predicate-hangs": controller(nothing, ctrlhost.For("v1", "Pod", predicates=[hang])),
    "index-function-hangs": controller(nothing, ctrlhost.For("v1", "Pod", indexes={"bad": hang})),
    "event-handler-hangs": of_the_informer(hang),
    "transform-hangs": of_the_informer(lambda *_: None, transform=hang),
    "rate-limiter-hangs": controller(fail, rate_limiter=Limiter()),
    "timer-hangs": controller(nothing, ctrlhost.Every(0.1, requests=hang)),
    "task-hangs": lambda plugin: plugin.add_task("hang", hang) and None,
    "page-hangs": page(block_the_loop),
    "health-check-hangs": lambda plugin: plugin.add_health_check("hang", hang),
    "collector-hangs": lambda plugin: plugin.metrics.register(Collector(hang)),
}
COMPUTES: dict[str, Callable[[ctrlhost.PluginContext], None]] = {
    "map-computes": map_of(compute),
    "reconcile-computes": controller(compute),
    "page-computes": page(compute_on_the_loop),
}
OTHERS: dict[str, Callable[[ctrlhost.PluginContext], None]] = {
    "nothing": controller(nothing),
    "reconcile-hangs-once": controller(hang_once),
    "threads-compute": threads,
    "keys-fail": controller(fail, ctrlhost.Every(3600, requests=keys, at_start=True)),
    "many-series": lambda plugin: plugin.metrics.register(Collector(many_series)),
}
#: Plugins that fail again and again, each after its set-up.
CRASHES = {f"crashes-{number}": controller(nothing) for number in range(19)}
KINDS = HANGS | COMPUTES | OTHERS | CRASHES


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    KINDS[plugin.name](plugin)


@ctrlhost.hookimpl
def ctrlhost_synced(plugin: ctrlhost.PluginContext) -> None:
    if plugin.name == "hook-hangs":
        hang()
    if plugin.name in CRASHES:
        raise RuntimeError("on purpose")
