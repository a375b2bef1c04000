"""Traces of reconciles and their requests, at a collector of OTLP over HTTP."""

from __future__ import annotations

import gzip
import http.server
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from tests.host.conftest import Distributions, StartHost
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

behaviour = pytest.mark.behaviour
GO = ctrlhost.For("v1", "ConfigMap", label_selector="go")


class Collector:
    """Takes spans, and keeps them by name."""

    def __init__(self) -> None:
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.paths: set[str] = set()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def take(self, path: str, body: bytes) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        self.paths.add(path)
        for resource in request.resource_spans:
            self.resources.append(values(resource.resource.attributes))
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def named(self, name: str, count: int = 1) -> list[Any]:
        """Wait for spans of this name."""

        def some() -> list[Any] | None:
            spans = [span for span in self.spans if span.name == name]
            return spans if len(spans) >= count else None

        spans: list[Any] = eventually(some, 60, f"{count} spans {name}")
        return spans

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    # Batches are exported soon.
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    running = Collector()
    yield running
    running.close()


@pytest.fixture
def traced(sandbox: Sandbox, ctrlhost_host: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that starts a host with traces."""

    def start(setup: Callable[[ctrlhost.PluginContext], Any], **otel: Any) -> Any:
        host = ctrlhost_host(plugin_of(setup), sandbox=sandbox, start=False)
        host.host.state.configuration.tree["otel"] = otel
        return host.start()

    return start


@behaviour("oncall/OC30")
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_reconcile_is_a_span_with_its_requests_below(
    traced: Callable[..., Any], collector: Collector, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    caplog.set_level(logging.INFO)

    def write(ctx: Any, request: ctrlhost.Request) -> ctrlhost.Result | None:
        ctx.log.info("run of %s", request.name)
        if request.name == "bad":
            raise KeyError("spec")
        return ctrlhost.Result(requeue_after=3600) if request.name == "again" else None

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        result = write(ctx, request)
        ctx.client.apply(config_map(f"{request.name}-written"))
        with pytest.raises(ctrlhost.NotFound):
            ctx.client.get("apps/v1", "Deployment", "none", "default")
        return result

    async def reconcile_async(ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        result = write(ctx, request)
        await ctx.async_client.apply(config_map(f"{request.name}-written"))
        with pytest.raises(ctrlhost.NotFound):
            await ctx.async_client.get("apps/v1", "Deployment", "none", "default")
        return result

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("c", reconcile_async if is_async else reconcile, GO)

    host = traced(setup, endpoint=collector.address, sample=1.0, service="shop")
    for name in ("good", "again", "bad"):
        host.client.create(config_map(name, labels={"go": ""}))

    def runs() -> dict[str, Any]:
        return {values(span.attributes)["ctrlhost.key"]: span for span in collector.named("reconcile demo/c")}

    eventually(lambda: len(runs()) == 3, 60, "a span for each key")
    outcomes = {}
    for key, span in runs().items():
        attributes = values(span.attributes)
        assert attributes["ctrlhost.plugin"] == "demo"
        assert attributes["ctrlhost.controller"] == "demo/c"
        assert attributes["ctrlhost.queue_wait_seconds"] >= 0
        assert attributes["ctrlhost.run"]
        assert span.parent_span_id == b""
        assert span.end_time_unix_nano > span.start_time_unix_nano
        outcomes[key] = (attributes["ctrlhost.outcome"], span.status.code == span.status.STATUS_CODE_ERROR)
    assert outcomes == {
        "default/good": ("success", False),
        "default/again": ("requeue_after", False),
        "default/bad": ("KeyError", True),
    }
    good = runs()["default/good"]
    for name, status, target in (
        ("patch configmaps", 200, {"ctrlhost.namespace": "default", "ctrlhost.name": "good-written"}),
        ("get deployments.apps", 404, {"ctrlhost.namespace": "default", "ctrlhost.name": "none"}),
    ):
        (child,) = (span for span in collector.named(name, 2) if span.trace_id == good.trace_id)
        assert child.parent_span_id == good.span_id
        attributes = values(child.attributes)
        assert attributes["http.response.status_code"] in (status, 201)
        assert target.items() <= attributes.items()
        assert (child.status.code == child.status.STATUS_CODE_ERROR) is (status >= 400)
    assert collector.paths == {"/v1/traces"}
    assert all(resource["service.name"] == "shop" for resource in collector.resources)
    # Requests outside of reconciles are none.
    assert all(span.parent_span_id or span.name == "reconcile demo/c" for span in collector.spans)


@behaviour("oncall/OC30")
def test_lines_of_a_traced_run_carry_its_trace(
    start_host: StartHost, distributions: Distributions, collector: Collector
) -> None:
    distributions.add("logging", LOGS)
    host = start_host(
        "--sandbox",
        "--isolate=logging",
        f"--set=otel.endpoint={collector.address}",
        "--set=otel.sample=1",
        plugins="logging",
        OTEL_BSP_SCHEDULE_DELAY="50",
    )
    host.line("plugin logging running")
    client = ctrlhost.Client.load(host.kubeconfig)
    client.create(config_map("one", labels={"go": ""}))
    line = host.line("run of one")
    (span, *_) = collector.named("reconcile logging/c")
    assert line["trace_id"] == span.trace_id.hex()


#: A plugin that logs in its reconciles.
LOGS = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="go"))

    def reconcile(ctx, request):
        ctx.log.info("run of %s", request.name)
"""


@behaviour("oncall/OC30")
def test_what_is_not_sampled_has_no_span(traced: Callable[..., Any], collector: Collector) -> None:
    runs = threading.Event()

    def reconcile(ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
        ctx.client.apply(config_map("written"))
        runs.set()

    host = traced(lambda plugin: plugin.add_controller("c", reconcile, GO), endpoint=collector.address, sample=0)
    host.client.create(config_map("one", labels={"go": ""}))
    assert runs.wait(60)
    host.stop()
    assert collector.spans == []


@behaviour("oncall/OC30")
@pytest.mark.parametrize("endpoint", ["refuses", "hangs"])
def test_an_endpoint_that_fails_is_one_line_and_nothing_waits(
    traced: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    endpoint: str,
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        if endpoint == "refuses":
            silent.close()

        def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
            ctx.client.apply(config_map(f"{request.name}-written"))

        host = traced(
            lambda plugin: plugin.add_controller("c", reconcile, GO), endpoint=address, sample=1.0, timeout="1s"
        )
        for number in range(30):
            host.client.create(config_map(f"go-{number}", labels={"go": ""}))
        for number in range(30):
            name = f"go-{number}-written"
            eventually(lambda name=name: host.client.find("v1", "ConfigMap", name, "default"), 60, name)

        def told() -> list[str]:
            # The last spans of an earlier host may fail now.
            return [r.message for r in caplog.records if "traces" in r.message and address in r.message]

        eventually(told, 60, "a line of the log")
        host.client.create(config_map("later", labels={"go": ""}))
        eventually(lambda: host.client.find("v1", "ConfigMap", "later-written", "default"), 60)
        host.stop()
        assert told() == [f"traces do not reach {address}/v1/traces, and are dropped until they do"]


@behaviour("oncall/OC30")
@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("endpoint=collector:4318", "otel: `endpoint` must be http://HOST:PORT or https://HOST:PORT"),
        ("sample=2", "otel: `sample` must be from 0 to 1"),
        ("samples=1", "otel.samples: unknown setting"),
    ],
)
def test_mistakes_in_the_settings(ctrlhost: Any, distributions: Distributions, setting: str, error: str) -> None:
    distributions.add("logging", LOGS)
    result = ctrlhost("run", "--sandbox", "--plugins=logging", f"--set=otel.{setting}")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {error}"), result.stderr


@behaviour("oncall/OC30")
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "ctrlhost.controller.tracing", raising=False)
    with pytest.raises(ctrlhost.ConfigError, match="package opentelemetry is missing") as raised:
        __import__("ctrlhost.controller.tracing")
    assert raised.value.hint == "install it with `pip install 'ctrlhost[otel]'`"
