"""Each alert in a Prometheus that scrapes hosts: none fires for a host that is well, each for a host with its fault."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
import yaml
from ctrlhost_sandbox import Sandbox

from ctrlhost import Client
from ctrlhost.server.authority import NAME as AUTHORITY
from ctrlhost.testing.fault_proxy import FaultProxy
from tests.e2e.prometheus import Prometheus
from tests.host.conftest import Distributions
from tests.support import promql
from tests.support.exec_program import ExecProgram
from tests.support.host_process import HostProcess
from tests.support.plugin_modules import config_map
from tests.support.tls_files import Authority
from tests.support.waiting import eventually
from tests.support.webhook_host import Certificate, Listener, review

GOOD = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", lambda ctx, request: None, ctrlhost.For("v1", "ConfigMap"))
"""
ERRS = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap"))

    def reconcile(ctx, request):
        raise RuntimeError("always")
"""
HANGS = """
    import threading
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        source = ctrlhost.For("v1", "ConfigMap")
        plugin.add_controller("c", lambda ctx, request: threading.Event().wait(), source, workers=1)
"""
FAILS = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        raise RuntimeError("cannot")
"""
FLOODS = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_task("talk", talk)

    import logging
    log = logging.getLogger(__name__)

    def talk(stop):
        while not stop.wait(0.05):
            log.info("a line")
"""
WEBHOOKS = """
    import threading
    import ctrlhost

    plugin = ctrlhost.Plugin()

    @plugin.validate("v1/ConfigMap", timeout="2s")
    def raises(ctx, new, old):
        raise RuntimeError("always")

    @plugin.validate("v1/ConfigMap", timeout="2s")
    def dawdles(ctx, new, old):
        threading.Event().wait(1.2)
"""
SHARED = """
    import threading
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        source = ctrlhost.For("v1", "ConfigMap")
        plugin.add_controller("c", run, source, shard_by="namespace", workers=10)

    def run(ctx, request):
        if request.name.startswith("hangs"):
            threading.Event().wait()
"""
#: What the faults show within seconds: the alerts wait for minutes so that they do not fire too early.
QUICK = {
    "CtrlhostCacheStale": {"> 600": "> 5"},
    "CtrlhostQueueBacklog": {"> 300": "> 1"},
    "CtrlhostReconcileHangs": {"> 600": "> 1"},
    "CtrlhostExecCredentialExpires": {"[10m]": "[30s]"},
    "CtrlhostWebhookErrors": {"[10m]": "[10s]"},
    "CtrlhostWebhookSlow": {"[10m]": "[10s]"},
    "CtrlhostLogLinesDropped": {"[10m]": "[10s]"},
}
#: The host on which each alert fires; leaders and what has no owner belong to no host.
EXPECTED = {
    "CtrlhostDown": "well",
    "CtrlhostPluginFailed": "bad",
    "CtrlhostPluginDegraded": "bad",
    "CtrlhostNoLeader": "",
    "CtrlhostTwoLeaders": "",
    "CtrlhostShardsUnowned": "",
    "CtrlhostShardsStuck": "stuck",
    "CtrlhostApiServerUnreachable": "cut off",
    "CtrlhostCacheStale": "cut off",
    "CtrlhostQueueBacklog": "bad",
    "CtrlhostControllerFailing": "bad",
    "CtrlhostReconcileHangs": "bad",
    "CtrlhostCertificateExpires": "bad",
    "CtrlhostTokenExpires": "bad",
    "CtrlhostExecCredentialExpires": "cut off",
    "CtrlhostWebhookNoCertificate": "cut off",
    "CtrlhostWebhookErrors": "bad",
    "CtrlhostWebhookSlow": "bad",
    "CtrlhostLogLinesDropped": "bad",
}


class Hosts:
    """Hosts on sandboxes; all end with the test."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self._folder, self._running = folder, running
        (folder / "site").mkdir()
        self._distributions = Distributions(folder / "site")
        sources = {"good": GOOD, "errs": ERRS, "hangs": HANGS, "fails": FAILS, "floods": FLOODS, "hooks": WEBHOOKS}
        sources["shared"] = SHARED
        for name, source in sources.items():
            self._distributions.add(name, source)

    def sandbox(self) -> tuple[Sandbox, Client]:
        sandbox = self._running.enter_context(Sandbox())
        client = Client.load(sandbox.kubeconfig)
        self._running.callback(client.close)
        for name in ("one", "two", "three"):
            client.create(config_map(name))
        return sandbox, client

    def start(self, kubeconfig: Path, plugins: str, *options: str) -> HostProcess:
        arguments = [f"--plugins={plugins}", f"--kubeconfig={kubeconfig}", "--leader-elect", *options]
        environment = self._distributions.environment()
        return self._running.enter_context(HostProcess(*arguments, environment=environment))

    def start_bad(self) -> str:
        """Start a host with plugins that misbehave, a token of ten minutes and a certificate of a day."""
        sandbox, client = self.sandbox()
        # Fewer keys have to fail for a minute.
        for number in range(10):
            client.create(config_map(f"more{number}"))
        account = {"name": "robot", "namespace": "default"}
        client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        wanted = {"expirationSeconds": 600}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": wanted}
        answer = client.transport.request(
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/robot/token",
            body=json.dumps(request).encode(),
            headers={"Content-Type": "application/json"},
        )
        user = {"token": json.loads(answer.body)["status"]["token"]}
        certificate, key = Authority(self._folder / "authority").issue("localhost", days=1)
        for name, text in {"cert": certificate, "key": key}.items():
            (self._folder / name).write_text(text)
        settings = '[supervision.floods]\nlog_lines = 1\n[controllers."good/c"]\npaused = true\n'
        (self._folder / "bad.toml").write_text(settings)
        webhooks = Certificate(self._folder / "webhooks")
        host = self.start(
            self._kubeconfig("bad", sandbox.kubeconfig, user),
            "errs,hangs,fails,floods,hooks,good",
            "--set=host.webhook_listen=127.0.0.1:0",
            f"--set=host.webhook_cert_dir={webhooks.folder}",
            "--set=host.listen_metrics=127.0.0.1:0",
            *(f"--set=host.tls_{name}_file={self._folder / name}" for name in ("cert", "key")),
            f"--config={self._folder / 'bad.toml'}",
        )
        self._ask(Listener(str(host.line("serving webhooks on https://")["msg"]).rpartition("//")[2], webhooks))
        message: str = host.line("serving metrics on https://")["msg"]
        return message.rpartition("//")[2]

    def _ask(self, listener: Listener) -> None:
        """Ask the webhooks again and again, until the end of the test."""
        stop = threading.Event()

        def ask() -> None:
            while not stop.wait(0.1):
                for name in ("raises", "dawdles"):
                    # The host ends first.
                    with suppress(OSError, HTTPException):
                        listener.send(f"/validate/hooks/{name}", review(config_map("asked")))

        threading.Thread(target=ask, daemon=True).start()
        self._running.callback(stop.set)

    def start_cut_off(self) -> tuple[str, Callable[[], None]]:
        """Start a host whose Lease another one holds; return what cuts it off and breaks its exec plugin.

        The authority of its webhooks is unusable.
        """
        sandbox, client = self.sandbox()
        secret = {"name": AUTHORITY, "namespace": "default"}
        client.create({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"tls.crt": "garbage"}})
        spec = {"holderIdentity": "ghost", "leaseDurationSeconds": 3600, "leaseTransitions": 0}
        metadata = {"name": "other", "namespace": "default"}
        client.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
        (self._folder / "exec").mkdir()
        program = ExecProgram(self._folder / "exec")
        self._running.callback(program.close)
        (user,) = yaml.safe_load(sandbox.kubeconfig.read_text())["users"]
        program.set("token", user["user"]["token"])
        program.set("expires", datetime.fromtimestamp(time.time() + 20, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        proxy = self._running.enter_context(FaultProxy(sandbox))
        host = self.start(
            self._kubeconfig("cut-off", proxy.kubeconfig, program.user),
            "good,hooks",
            "--set=host.webhook_listen=127.0.0.1:0",
            "--set=host.leader_elect_resource_name=other",
            *(f"--set=host.leader_elect_{name}={hours}h" for name, hours in TIMES.items()),
        )
        host.eventually(lambda: host.metric("ctrlhost_informer_synced", resource="configmaps"), "a synced informer")

        def break_it() -> None:
            program.set("fail")
            proxy.cut()

        return host.address, break_it

    def start_stuck(self) -> str:
        """Start a replica whose runs do not end, and one that waits for some of its ranges; return the first one."""
        sandbox, client = self.sandbox()
        for number in range(8):
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"shop-{number}"}})
            client.create({**config_map("hangs"), "metadata": {"name": "hangs", "namespace": f"shop-{number}"}})
        options = [
            "--shards",
            "--set=host.drain_timeout=1s",
            "--set=shards.handover_timeout=1s",
            *(f"--set=host.leader_elect_{name}={seconds}s" for name, seconds in TIMES.items()),
        ]
        first = self.start(sandbox.kubeconfig, "shared", *options)
        first.eventually(lambda: first.metric("controller_runtime_active_workers") == 8, "all runs hang")
        self.start(sandbox.kubeconfig, "shared", *options)
        return first.address

    def start_alone(self) -> str:
        """Start a replica of a fleet of which another one is missing."""
        sandbox, client = self.sandbox()
        for number in range(8):
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"shop-{number}"}})
        return self.start(sandbox.kubeconfig, "shared", "--shards", "--set=shards.min_members=2").address

    def _kubeconfig(self, name: str, source: Path, user: dict[str, Any]) -> Path:
        content: Any = yaml.safe_load(source.read_text())
        content["users"][0]["user"] = user
        path = self._folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path


#: So long that the host does not take the Lease.
TIMES = {"lease_duration": 3, "renew_deadline": 2, "retry_period": 1}


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.behaviour("operations/OP123")
def test_each_alert_fires_for_its_fault_and_none_without_one(tmp_path: Path, running: ExitStack) -> None:
    hosts = Hosts(tmp_path, running)
    sandbox, _ = hosts.sandbox()
    well = hosts.start(sandbox.kubeconfig, "good")
    (tmp_path / "prometheus").mkdir()
    prometheus = running.enter_context(Prometheus(tmp_path / "prometheus"))
    well.eventually(lambda: well.metric("leader_election_master_status"), "a leader")
    prometheus.scrape("well", well.address)
    eventually(lambda: prometheus.query("ctrlhost_build_info"), 30, "a scrape", 0.1)
    evaluations = prometheus.evaluations()
    eventually(lambda: prometheus.evaluations() >= evaluations + 6, 60, "six evaluations", 0.2)
    assert prometheus.firing() == set()

    bad = hosts.start_bad()
    cut_off, break_it = hosts.start_cut_off()
    prometheus.quicken(QUICK)
    prometheus.reload()
    prometheus.scrape("bad", bad, "https")
    prometheus.scrape("cut off", cut_off)
    prometheus.scrape("stuck", hosts.start_stuck())
    prometheus.scrape("alone", hosts.start_alone())
    eventually(lambda: prometheus.query('ctrlhost_build_info{instance="cut off"}'), 30, "a scrape", 0.1)
    break_it()
    fired: set[tuple[str, str]] = set()

    def all_fired(*but: str) -> bool:
        fired.update(prometheus.firing())
        return fired >= {(alert, host) for alert, host in EXPECTED.items() if alert not in but}

    try:
        eventually(lambda: all_fired("CtrlhostDown"), 100, pause=0.25)
        well.end()
        eventually(all_fired, 30, pause=0.25)
    except AssertionError:
        assert sorted(set(EXPECTED.items()) - fired) == []
        raise
    # Prometheus evaluates each expression of the dashboard without an error, such as one about ambiguous series.
    for expression in promql.of_dashboard():
        prometheus.query(expression)
    # A key has to fail for five minutes first.
    assert EXPECTED.keys() == {rule["alert"] for rule in promql.rules()} - {"CtrlhostControllerDegraded"}
    # No other alert has fired but the quick one for caches, since bookmarks come once a minute, and that for the runs
    # that keep ranges: not for the keys that wait on the standby either.
    others = {(alert, host) for alert, host in fired - set(EXPECTED.items()) if alert != "CtrlhostCacheStale"}
    assert others == {("CtrlhostReconcileHangs", "stuck")}
