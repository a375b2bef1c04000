"""A plugin that hands the host values that it should not, in one of many ways, which `EVIL` names."""

import itertools
import math
import os
import threading

from prometheus_client.core import GaugeMetricFamily

import ctrlhost

EVIL = os.environ["EVIL"]
MAPS = ctrlhost.For("v1", "ConfigMap")
HUGE = 20_000_000


def tell():
    """Print that the plugin misbehaves now."""
    print("evil", flush=True)


def hang(*_args, **_kwargs):
    threading.Event().wait()


@ctrlhost.hookimpl
def ctrlhost_crds():
    if EVIL not in CRDS:
        return []
    tell()
    return CRDS[EVIL]


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    if EVIL not in CRDS:
        globals()[EVIL](plugin)


def cycle():
    circle = {}
    circle["metadata"] = circle
    return circle


def deep(obj):
    """Return an object with very many levels."""
    here = obj
    for _ in range(200_000):
        here["data"] = here = {}
    return obj


def named(request):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "evil", "namespace": request.namespace}}


CRDS = {"crds_of_strings": ["evil", 7, None], "crds_without_end": [cycle()]}


def reconciling(plugin, function, *sources, **options):
    """Add a controller of `function`, which gets context and request."""

    def reconcile(ctx, request):
        tell()
        return function(ctx, request)

    plugin.add_controller("all", reconcile, *(sources or (MAPS,)), **options)


def telling(function):
    def called(*args):
        tell()
        return function(*args)

    return called


def nothing(_ctx, _request):
    """Reconcile nothing."""


def raise_huge(*_args):
    tell()
    raise RuntimeError("x" * HUGE)


def huge_error(plugin):
    reconciling(plugin, raise_huge)


def huge_error_in_setup(plugin):
    raise_huge()


def huge_error_of_health(plugin):
    plugin.add_health_check("evil", raise_huge)


def huge_log_line(plugin):
    reconciling(plugin, lambda ctx, _request: ctx.log.info("x" * HUGE))


def error_that_causes_itself(plugin):
    def reconcile(_ctx, _request):
        first, second = RuntimeError("one"), RuntimeError("two")
        first.__cause__, second.__cause__ = second, first
        raise first

    reconciling(plugin, reconcile)


def error_with_many_causes(plugin):
    def reconcile(_ctx, _request):
        error = None
        for _ in range(20_000):
            later = RuntimeError("on purpose")
            later.__cause__, error = error, later
        raise error

    reconciling(plugin, reconcile)


class Hostile(Exception):
    """Every operator of it ends the thread, or tries to."""

    def __bool__(self):
        raise SystemExit(3)

    __str__ = __repr__ = __len__ = __iter__ = __hash__ = __eq__ = __bool__


class Mute(Exception):
    __str__ = hang


def text_of_an_error_exits(plugin):
    def reconcile(_ctx, _request):
        raise Hostile

    reconciling(plugin, reconcile)


def text_of_an_error_hangs(plugin):
    def reconcile(_ctx, _request):
        raise Mute

    reconciling(plugin, reconcile)


def text_of_an_error_hangs_in_setup(plugin):
    tell()
    raise Mute


def hostile_result(plugin):
    reconciling(plugin, lambda *_: Hostile())


def hostile_log_line(plugin):
    reconciling(plugin, lambda ctx, _request: ctx.log.info(Hostile(), extra={"plugin": Hostile(), "object": Hostile()}))


def hostile_predicate(plugin):
    reconciling(plugin, nothing, ctrlhost.For("v1", "ConfigMap", predicates=[telling(lambda *_: Hostile())]))


def hostile_map(plugin):
    reconciling(plugin, nothing, ctrlhost.Watches("v1", "ConfigMap", map=telling(lambda *_: Hostile())))


class Collector:
    def __init__(self, collect):
        self.collect = telling(collect)

    def describe(self):
        return []


def gauge(name, label, value=1.0):
    family = GaugeMetricFamily(name, "Evil", labels=("plugin",))
    family.add_metric((label,), value)
    return family


def metrics_with_a_huge_label(plugin):
    plugin.metrics.register(Collector(lambda: [gauge("evil", "x" * HUGE)]))


def metrics_without_end(plugin):
    plugin.metrics.register(Collector(lambda: (gauge("evil", str(number)) for number in itertools.count())))


def metrics_of_the_host(plugin):
    names = ("ctrlhost_plugin_state", "ctrlhost_gil_stalls", "workqueue_depth")
    plugin.metrics.register(Collector(lambda: [gauge(name, "good", math.nan) for name in names]))


def spoil(*objects):
    """Change objects of the cache; return True."""
    tell()
    for obj in objects:
        obj["data"]["number"] = "evil"
        obj["metadata"]["labels"].clear()
    return True


def objects_changed_in_a_reconcile(plugin):
    def reconcile(ctx, request):
        obj = ctx.get(request)
        if obj is not None and "number" in obj.get("data", {}):
            spoil(
                obj,
                *(labelled for labelled in ctx.lister("v1", "ConfigMap").list() if labelled["metadata"].get("labels")),
            )

    plugin.add_controller("all", reconcile, MAPS)


def objects_changed_in_a_handler(plugin):
    informer = plugin.informer("v1", "ConfigMap", label_selector="good=yes")
    informer.add_handler(on_add=lambda obj, _initial: spoil(obj), on_update=spoil, name="evil")


def odd_results(plugin):
    delays = (0.0, 1e-300, 1e300, math.nan, math.inf, -math.inf)
    values = itertools.cycle([*(ctrlhost.Result(requeue_after=delay) for delay in delays), 7, "x", object(), [], {}])
    reconciling(plugin, lambda *_: next(values))


def odd_retries(plugin):
    values = itertools.cycle([math.inf, math.nan, -1, 1e300, "x", None])

    def reconcile(_ctx, _request):
        raise ctrlhost.RetryAfter(next(values))

    reconciling(plugin, reconcile)


def odd_limiter(plugin):
    values = itertools.cycle([math.nan, math.inf, -1, 1e300, "x", None])

    class Limiter:
        def when(self, _key):
            return next(values)

        def forget(self, _key):
            raise SystemExit(3)

        def num_requeues(self, _key):
            return "x"

    def reconcile(_ctx, _request):
        raise RuntimeError("on purpose")

    reconciling(plugin, reconcile, rate_limiter=Limiter())


def mapped(plugin, find):
    reconciling(plugin, nothing, ctrlhost.Watches("v1", "ConfigMap", map=telling(find)))


def odd_requests(plugin):
    names = ("\ud800", "x" * HUGE, "a\x00b", "\n../..", "")
    mapped(plugin, lambda _obj: [ctrlhost.Request(name=name, namespace=name) for name in names])


def many_requests(plugin):
    mapped(plugin, lambda _obj: [ctrlhost.Request(name=str(index), namespace="evil") for index in range(100_000)])


def requests_without_end(plugin):
    mapped(plugin, lambda _obj: itertools.repeat(ctrlhost.Request(name="one", namespace="evil")))


def indexing(plugin, find):
    reconciling(plugin, nothing, ctrlhost.For("v1", "ConfigMap", indexes={"evil": telling(find)}))


def odd_index(plugin):
    values = itertools.cycle([7, "x", None, [None], [["a"]], ["\ud800"], object()])
    indexing(plugin, lambda _obj: next(values))


def index_without_end(plugin):
    indexing(plugin, lambda _obj: itertools.repeat("x"))


def object_that_contains_itself(plugin):
    reconciling(plugin, lambda ctx, request: ctx.client.apply({**named(request), "data": cycle()}))


def object_with_many_levels(plugin):
    reconciling(plugin, lambda ctx, request: ctx.client.apply(deep(named(request))))


def transform_with_many_levels(plugin):
    plugin.informer("v1", "ConfigMap", transform=telling(deep))


def transform_to_a_number(plugin):
    plugin.informer("v1", "ConfigMap", transform=telling(lambda _obj: 7))


def page_with_odd_headers(plugin):
    async def page(_scope, _receive, send):
        tell()
        await send({"type": "http.response.start", "status": "x", "headers": [("a", 7)]})
        await send({"type": "http.response.body", "body": Hostile()})

    plugin.add_page("/", page)


def page_without_end(plugin):
    async def page(_scope, _receive, send):
        tell()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(200):
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})

    plugin.add_page("/", page)


def handlers_by_the_thousand(plugin):
    tell()
    informer = plugin.informer("v1", "ConfigMap")
    for number in range(1000):
        informer.add_handler(on_add=lambda _obj, _initial: None, name=str(number))
