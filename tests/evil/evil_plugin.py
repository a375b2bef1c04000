"""A plugin that misbehaves in one of many ways, which `EVIL` in the environment names.

It is installed beside a good plugin on the same kind. What hangs here does so until the process ends.
"""

import asyncio
import ctypes
import logging
import os
import threading
import time

import ctrlhost

EVIL = os.environ["EVIL"]
MAPS = ctrlhost.For("v1", "ConfigMap")


def tell():
    """Print that the plugin misbehaves now."""
    print("evil", flush=True)


def hang(*_args, **_kwargs):
    tell()
    threading.Event().wait()


def compute(*_args, **_kwargs):
    tell()
    while True:
        pass


def leave(*_args, **_kwargs):
    tell()
    raise SystemExit(3)


class Odd(BaseException):
    def __str__(self):
        raise RuntimeError("no text")


def odd(*_args, **_kwargs):
    tell()
    raise Odd


if EVIL == "import_hangs":
    hang()
if EVIL == "import_raises":
    tell()
    raise RuntimeError("on purpose")
if EVIL == "import_exits":
    leave()


@ctrlhost.hookimpl
def ctrlhost_settings():
    return hang() if EVIL == "settings_hang" else None


@ctrlhost.hookimpl
def ctrlhost_crds():
    return {"crds_hang": hang, "crds_exit": leave}.get(EVIL, list)()


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    {"setup_hangs": hang, "setup_raises": odd, "setup_computes": compute}.get(EVIL, lambda: None)()
    if EVIL in SETUPS:
        SETUPS[EVIL](plugin)


@ctrlhost.hookimpl
def ctrlhost_synced():
    {"synced_hangs": hang, "synced_exits": leave}.get(EVIL, lambda: None)()


@ctrlhost.hookimpl
def ctrlhost_elected():
    {"elected_hangs": hang, "elected_raises": odd}.get(EVIL, lambda: None)()


@ctrlhost.hookimpl
def ctrlhost_stopping():
    if EVIL == "stopping_hangs":
        hang()


def controller(reconcile, *sources, **options):
    return lambda plugin: plugin.add_controller("all", reconcile, *(sources or (MAPS,)), **options)


def nothing(_ctx, _request):
    """Reconcile nothing."""


async def block_the_loop(_ctx, _request):
    tell()
    time.sleep(3600)  # noqa: ASYNC251 - this is the misbehaviour


async def ignore_the_cancellation(_ctx, _request):
    tell()
    while True:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


def fill_the_log(_ctx, _request):
    tell()
    for number in range(20_000):
        logging.getLogger("evil").error("line %d", number)


def take_all_threads(plugin):
    for _ in range(8):
        threading.Thread(target=compute, daemon=True).start()


class Limiter:
    def when(self, _key):
        hang()

    def forget(self, _key):
        """Forget nothing."""

    def num_requeues(self, _key):
        return 0


def fail(_ctx, _request):
    tell()
    raise RuntimeError("on purpose")


def add_handler(callback):
    def setup(plugin):
        plugin.informer("v1", "ConfigMap").add_handler(on_add=lambda obj, _initial: callback(), name="evil")

    return setup


async def page_that_blocks(_scope, _receive, _send):
    tell()
    time.sleep(3600)  # noqa: ASYNC251 - this is the misbehaviour


async def page_that_exits(_scope, _receive, _send):
    tell()
    raise SystemExit(3)


class Collector:
    def __init__(self, work):
        self._work = work

    def describe(self):
        return []

    def collect(self):
        return self._work()


def many_series():
    tell()
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily("evil_many", "Too many", labels=("number",))
    for number in range(100_000):
        family.add_metric((str(number),), number)
    return [family]


class Handler(logging.Handler):
    def handle(self, _record):
        hang()


def hold_the_root_logger(_plugin):
    logging.getLogger().addHandler(Handler())
    threading.Thread(target=logging.getLogger("evil").error, args=("held",), daemon=True).start()


def hold_the_interpreter(_ctx, _request):
    tell()
    # A call that keeps the interpreter lock, of one second.
    ctypes.PyDLL(None).usleep(1_000_000)


def leak_threads(_plugin):
    for _ in range(200):
        threading.Thread(target=hang, daemon=True).start()


SETUPS = {
    "reconcile_hangs": controller(hang),
    "reconcile_computes": controller(compute),
    "reconcile_raises": controller(fail),
    "reconcile_exits": controller(leave),
    "reconcile_raises_oddly": controller(odd),
    "reconcile_fills_the_log": controller(fill_the_log),
    "reconcile_holds_the_interpreter": controller(hold_the_interpreter),
    "async_blocks_the_loop": controller(block_the_loop),
    "async_ignores_the_cancellation": controller(ignore_the_cancellation, timeout=0.2),
    "limiter_hangs": controller(fail, rate_limiter=Limiter()),
    "map_hangs": controller(nothing, ctrlhost.Watches("v1", "ConfigMap", map=hang)),
    "map_computes": controller(nothing, ctrlhost.Watches("v1", "ConfigMap", map=compute)),
    "map_exits": controller(nothing, ctrlhost.Watches("v1", "ConfigMap", map=leave)),
    "predicate_hangs": controller(nothing, ctrlhost.For("v1", "ConfigMap", predicates=[hang])),
    "index_hangs": controller(nothing, ctrlhost.For("v1", "ConfigMap", indexes={"evil": hang})),
    "handler_hangs": add_handler(hang),
    "handler_exits": add_handler(leave),
    "page_blocks": lambda plugin: plugin.add_page("/", page_that_blocks),
    "page_exits": lambda plugin: plugin.add_page("/", page_that_exits),
    "metrics_hang": lambda plugin: plugin.metrics.register(Collector(hang)),
    "metrics_flood": lambda plugin: plugin.metrics.register(Collector(many_series)),
    "metrics_exit": lambda plugin: plugin.metrics.register(Collector(leave)),
    "health_hangs": lambda plugin: plugin.add_health_check("evil", hang),
    "health_exits": lambda plugin: plugin.add_health_check("evil", leave),
    "task_hangs": lambda plugin: plugin.add_task("evil", hang),
    "task_exits": lambda plugin: plugin.add_task("evil", leave, every=0.1),
    "task_computes": lambda plugin: plugin.add_task("evil", compute),
    "every_hangs": controller(nothing, MAPS, ctrlhost.Every(0.1, requests=hang)),
    "threads_compute": take_all_threads,
    "threads_leak": leak_threads,
    "root_logger_hangs": hold_the_root_logger,
}
