"""A host with all that has metrics: the bundled plugins, sharded, one in a process of its own, and one that errs."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import yaml
from ctrlhost_sandbox import Sandbox
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ctrlhost import Client
from ctrlhost.testing.fault_proxy import Fault, FaultProxy
from tests.support.exec_program import ExecProgram
from tests.support.host_process import HostProcess
from tests.support.https_client import HttpsConnection
from tests.support.tls_files import Authority

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prometheus_client import Metric

    from tests.host.conftest import Distributions

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PLUGINS = "hostname,naming,ingress-status,bitcoin,toy,guard"

#: Restarts once, has a health check that once takes too long, and fails for roles with an annotation `error`.
TOY = """
    import threading
    from prometheus_client import Counter, Histogram, Summary
    import ctrlhost

    seen = set()
    never = threading.Event()

    def first(what):
        new = what not in seen
        seen.add(what)
        return new

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        if first("setup"):
            raise RuntimeError("the first time")
        counter = Counter("toy_made", "Things made", ["kind"], registry=plugin.metrics)
        took = Histogram("toy_took_seconds", "How long it took", registry=plugin.metrics)
        size = Summary("toy_size_bytes", "How large they are", registry=plugin.metrics)

        def reconcile(ctx, request):
            counter.labels("role").inc()
            took.observe(0.1)
            size.observe(7)
            role = ctx.get(request)
            text = role and role.annotations.get("error")
            if text:
                raise RuntimeError(f"{text} of {request.name}")

        plugin.add_controller("roles", reconcile, ctrlhost.For("rbac.authorization.k8s.io/v1", "ClusterRole",
            predicates=[lambda old, new: True]))
        plugin.add_health_check("slow", slow)

    def slow():
        if first("check"):
            never.wait(1)
"""

#: Has a webhook, which nobody asks.
GUARD = """
    import ctrlhost

    plugin = ctrlhost.Plugin()

    @plugin.validate("v1/ConfigMap")
    def size(ctx, new, old):
        pass
"""

SETTINGS = """
[informers]
memory_budget = "1Gi"
[supervision.toy]
restart_delay = "10ms"
[supervision.toy.deadlines]
probe = "200ms"
"""


class FullHost:
    """The host, its sandbox and an administrator's client; a context manager."""

    def __init__(self, folder: Path, distributions: Distributions) -> None:
        """Prepare; `folder` is for the files of credentials."""
        self._folder, self._distributions = folder, distributions
        self._running = ExitStack()

    def __enter__(self) -> Self:
        """Start it, and wait until everything that has metrics has happened once."""
        with ExitStack() as stack:
            sandbox = stack.enter_context(Sandbox())
            self.client = Client.load(sandbox.kubeconfig)
            stack.callback(self.client.close)
            proxy = stack.enter_context(FaultProxy(sandbox))
            authority = Authority(self._folder / "authority")
            program = ExecProgram(self._folder)
            stack.callback(program.close)
            self.client_certificate = self._credentials(program, authority, sandbox)
            self._distributions.add("toy", TOY)
            self._distributions.add("guard", GUARD)
            # One that is answered with a time to retry after, and one that fails an informer.
            proxy.next(Fault.answer(429, retry_after=1), verb="create", resource="customresourcedefinitions")
            for verb in ("watch", "list"):  # An informer that cannot stream its list asks for it in pages.
                proxy.next(Fault.answer(500), verb=verb, resource="clusterroles")
            (self._folder / "settings.toml").write_text(SETTINGS)
            self.process = stack.enter_context(
                HostProcess(
                    f"--plugins={PLUGINS}",
                    "--isolate=naming",
                    "--shards",
                    "--install-crds",
                    f"--kubeconfig={self._kubeconfig(proxy, program)}",
                    f"--config={self._folder / 'settings.toml'}",
                    "--set=host.listen_metrics=127.0.0.1:0",
                    "--set=host.webhook_listen=127.0.0.1:0",
                    *self._listener(authority),
                    "--set=hostname.rest-address=127.0.0.1",
                    "--set=hostname.rest-port=0",
                    environment=self._distributions.environment(),
                )
            )
            line: str = self.process.line("serving metrics on https://")["msg"]
            self.address = line.rpartition("//")[2]
            self._wait()
            self._running = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End all of it."""
        self._running.close()

    def _credentials(self, program: ExecProgram, authority: Authority, sandbox: Sandbox) -> str:
        (user,) = yaml.safe_load(sandbox.kubeconfig.read_text())["users"]
        certificate, key = authority.issue("me", days=30)
        program.set("token", user["user"]["token"])
        program.set("expires", datetime.fromtimestamp(time.time() + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        program.set("certificate", certificate)
        program.set("key", key)
        return certificate

    def _kubeconfig(self, proxy: FaultProxy, program: ExecProgram) -> Path:
        content: Any = yaml.safe_load(proxy.kubeconfig.read_text())
        content["users"][0]["user"] = program.user
        path = self._folder / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    def _listener(self, authority: Authority) -> list[str]:
        certificate, key = authority.issue("localhost", days=30)
        files = {"cert": certificate, "key": key}
        for name, text in files.items():
            (self._folder / f"listener-{name}").write_text(text)
        return [f"--set=host.tls_{name}_file={self._folder / f'listener-{name}'}" for name in files]

    def _wait(self) -> None:
        for plugin in PLUGINS.split(","):
            self.process.line(f"plugin {plugin} running")
        self.create_role("first", error="the first")
        self.process.get("/healthz")
        wanted = {
            "ctrlhost_entry_overruns_total",
            "ctrlhost_informer_errors_total",
            "controller_runtime_reconcile_time_seconds_bucket",
            "rest_client_request_retries_total",
            "toy_made_total",
            "ctrlhost_shards_server_filtered",
        }
        self.process.eventually(lambda: wanted <= {name for name, _ in self.series()}, "all metrics")
        self.process.eventually(
            lambda: any(
                name == "controller_runtime_reconcile_errors_total" and dict(labels)["controller"] == "toy/roles"
                for (name, labels), value in self.values().items()
                if value
            ),
            "a failed reconcile",
        )

    def create_role(self, name: str, error: str = "") -> None:
        """Create a ClusterRole, whose name may be almost anything; the plugin fails for it with the text `error`."""
        metadata = {"name": name, **({"annotations": {"error": error}} if error else {})}
        self.client.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata})

    def exposition(self, accept: str = "text/plain") -> str:
        """Return the metrics in the format for an `Accept` header."""
        with HttpsConnection(self.address) as connection:
            return connection.get(accept=accept).body

    def families(self, accept: str = "text/plain") -> list[Metric]:
        """Return the metrics, parsed by prometheus-client; ValueError if they are malformed."""
        parse = parse_openmetrics if accept == OPENMETRICS else parse_text
        return list(parse(self.exposition(accept)))

    def values(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return the value of each series."""
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for metric in self.families()
            for sample in metric.samples
        }

    def series(self) -> set[tuple[str, frozenset[tuple[str, str]]]]:
        """Return the names and labels of all series."""
        return set(self.values())

    def labels(self) -> dict[str, list[dict[str, str]]]:
        """Return the labels of the series of each name."""
        return labels_of(self.series())


def labels_of(series: Iterable[tuple[str, frozenset[tuple[str, str]]]]) -> dict[str, list[dict[str, str]]]:
    """Return the labels of series by their name."""
    labels_by_name: dict[str, list[dict[str, str]]] = {}
    for name, labels in series:
        labels_by_name.setdefault(name, []).append(dict(labels))
    return labels_by_name
