"""`/metrics`: requests, watches and objects, under the names of kube-apiserver."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ctrlhost_sandbox.http.messages import Attributes, Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

    from ctrlhost_sandbox.context import ServerContext

_VERBS = {"create": "POST", "update": "PUT"}
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "dry_run", "code", "component")


class Metrics:
    """The counters of one server. Runs in the server's own thread."""

    def __init__(self, context: ServerContext) -> None:
        """Count for `context`."""
        self._context = context
        self._requests: Counter[tuple[str, ...]] = Counter()

    def count(self, request: Request, code: int) -> None:
        """Count a request; those for paths and for unknown resources have no resource."""
        attributes = request.attributes or Attributes("")
        kind = self._context.registry.find(attributes.group, attributes.version, attributes.resource)
        if kind is None:
            self._requests[request.method, *("",) * 6, str(code), "apiserver"] += 1
            return
        subresource = attributes.subresource if kind.subresource(attributes.subresource) else ""
        scope = (
            "resource"
            if attributes.name or attributes.verb == "create"
            else "namespace"
            if attributes.namespace
            else "cluster"
        )
        dry_run = "All" if request.query.first("dryRun") == "All" else ""
        verb = _VERBS.get(attributes.verb, attributes.verb.upper())
        names = (verb, kind.group, kind.version, kind.plural, subresource)
        self._requests[*names, scope, dry_run, str(code), "apiserver"] += 1

    def answer(self) -> Response:
        """Return all metrics as Prometheus' text."""
        # Loading the library takes longer than starting the server.
        from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return Response(200, generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4)

    def collect(self) -> Iterable[Metric]:
        """Return the present values."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        requests = CounterMetricFamily("apiserver_request", "Requests by verb, resource and code.", labels=_LABELS)
        for labels, number in self._requests.items():
            requests.add_metric(labels, number)
        watches = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Open watches.", labels=("verb", "group", "version", "resource")
        )
        kinds = Counter((watch.kind.group, watch.kind.version, watch.kind.plural) for watch in self._context.watches)
        for names, number in kinds.items():
            watches.add_metric(("WATCH", *names), number)
        objects = GaugeMetricFamily("apiserver_resource_objects", "Stored objects.", labels=("group", "resource"))
        for table in self._context.store.tables():
            group, _, resource = table.name.rpartition("/")
            objects.add_metric((group, resource), table.count)
        return requests, watches, objects
