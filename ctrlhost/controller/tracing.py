"""Traces by OpenTelemetry: a span for each sampled reconcile, and one for each of its requests (`ctrlhost[otel]`)."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from ctrlhost.client.written_path import parse
from ctrlhost.controller.context import bound
from ctrlhost.controller.key_text import key_text
from ctrlhost.errors import ConfigError
from ctrlhost.request import Result
from ctrlhost.transport.wrapped import WrappedTransport

try:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
except ModuleNotFoundError as error:
    raise ConfigError(
        f"otel.endpoint: the package {error.name} is missing", hint="install it with `pip install 'ctrlhost[otel]'`"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

    from ctrlhost.config.settings import OtelSettings
    from ctrlhost.controller.context import Context
    from ctrlhost.transport.interface import HttpRequest, Response, Transport
    from ctrlhost.transport.steps import Steps
    from ctrlhost.workqueue import WorkQueue

log = logging.getLogger("ctrlhost.otel")

#: Seconds for the last spans at the end.
_END = 1.0
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Tracing:
    """Makes the spans of one process, and exports them on a thread of its own. Callable from any thread."""

    def __init__(self, settings: OtelSettings) -> None:
        """Start the thread; nothing connects before the first span."""
        # Of its failures the host logs one line.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        instance = f"{socket.gethostname()}-{os.getpid()}"
        resource = Resource.create({"service.name": settings.service, "service.instance.id": instance})
        self._provider = TracerProvider(
            sampler=ParentBasedTraceIdRatio(settings.sample), resource=resource, shutdown_on_exit=False
        )
        endpoint = f"{settings.endpoint.rstrip('/')}/v1/traces"
        exporter = _ReportingExporter(OTLPSpanExporter(endpoint, timeout=float(settings.timeout)), endpoint)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("ctrlhost")

    def close(self) -> None:
        """Export what waits, for at most a second."""
        # It waits for an endpoint that hangs.
        thread = threading.Thread(target=self._provider.shutdown, name="otel end", daemon=True)
        thread.start()
        thread.join(_END)

    def reconciler(
        self, reconcile: Callable[..., Any], controller: str, queue: WorkQueue, *, is_async: bool
    ) -> Callable[..., Any]:
        """Return the reconciler with a span for each run."""
        if is_async:

            @wraps(reconcile)
            async def run_async(context: Context, key: Any) -> Any:
                with self._run(context, key, controller, queue) as span:
                    return _noted(span, await reconcile(context, key))

            return run_async

        @wraps(reconcile)
        def run(context: Context, key: Any) -> Any:
            with self._run(context, key, controller, queue) as span:
                return _noted(span, reconcile(context, key))

        return run

    def transport(self, transport: Transport) -> Transport:
        """Return a transport whose requests are spans below that of their reconcile."""
        return _TracedTransport(transport, self)

    @contextmanager
    def _run(self, context: Context, key: Any, controller: str, queue: WorkQueue) -> Iterator[Span]:
        attributes = {
            "ctrlhost.plugin": controller.partition("/")[0],
            "ctrlhost.controller": controller,
            "ctrlhost.key": key_text(key),
            "ctrlhost.run": context.reconcile_id,
        }
        with self._tracer.start_as_current_span(f"reconcile {controller}", attributes=attributes) as span:
            if not span.is_recording():
                yield span
                return
            span.set_attribute("ctrlhost.queue_wait_seconds", queue.waited(key))
            with bound(trace_id=f"{span.get_span_context().trace_id:032x}"):
                try:
                    yield span
                except BaseException as error:
                    span.set_attribute("ctrlhost.outcome", type(error).__name__)
                    raise

    @contextmanager
    def request(self, request: HttpRequest) -> Iterator[Span | None]:
        """Make a span of a request of a traced reconcile; None for other requests."""
        if not trace.get_current_span().is_recording():
            yield None
            return
        verb, resource, namespace, name = _target(request)
        attributes = {
            "http.request.method": request.method,
            "ctrlhost.verb": verb,
            "ctrlhost.resource": resource,
            "ctrlhost.namespace": namespace,
            "ctrlhost.name": name,
        }
        with self._tracer.start_as_current_span(
            f"{verb} {resource}", kind=trace.SpanKind.CLIENT, attributes=attributes
        ) as span:
            yield span


class _TracedTransport(WrappedTransport):
    """A transport with a span for each request of a traced reconcile. Safe to use from any thread."""

    def __init__(self, transport: Transport, tracing: Tracing) -> None:
        super().__init__(transport)
        self._tracing = tracing

    def steps(self, request: HttpRequest) -> Steps[Response]:
        """Return the response."""
        with self._tracing.request(request) as span:
            response = yield from self.transport.steps(request)
            if span is not None:
                span.set_attribute("http.response.status_code", response.status)
                if response.status >= 400:
                    span.set_status(trace.StatusCode.ERROR)
        return response


class _ReportingExporter:
    """An exporter of whose failures the host logs the first one, and the next success."""

    def __init__(self, exporter: SpanExporter, endpoint: str) -> None:
        self._exporter, self._endpoint = exporter, endpoint
        self._failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans; a failure drops them."""
        try:
            result = self._exporter.export(spans)
        except Exception as error:
            log.debug("spans not exported", exc_info=error)
            result = SpanExportResult.FAILURE
        failed = result is not SpanExportResult.SUCCESS
        if failed and not self._failed:
            log.warning("traces do not reach %s, and are dropped until they do", self._endpoint)
        elif self._failed and not failed:
            log.info("traces reach %s again", self._endpoint)
        self._failed = failed
        return result

    def shutdown(self) -> None:
        """End the exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: nothing waits here."""
        return bool(self._exporter.force_flush(timeout_millis))


def _noted(span: Span, result: Any) -> Any:
    """Set the outcome of a run that returned."""
    if span.is_recording():
        again = isinstance(result, Result) and result.requeue_after is not None
        span.set_attribute("ctrlhost.outcome", "requeue_after" if again else "success")
    return result


def _target(request: HttpRequest) -> tuple[str, str, str, str]:
    """Return verb, resource, namespace and name of a request."""
    path = parse(request.path)
    if path is None:
        return request.method.lower(), request.path, "", ""
    verb = _VERBS.get(request.method) or ("get" if path.name else "list")
    group = path.api_version.rpartition("/")[0]
    resource = ".".join(filter(None, (path.plural, group)))
    return verb, f"{resource}/{path.subresource}" if path.subresource else resource, path.namespace, path.name
