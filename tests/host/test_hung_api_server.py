"""An API server that hangs, vanishes behind a dead network, or is busy: what the host notices, shows and does then."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost.client import Client
from tests.host.two_networks import THERE, TwoNetworks
from tests.support.control_plane import KubeApiserver
from tests.support.host_process import HostProcess
from tests.support.plugin_modules import config_map
from tests.support.status_page import page_at
from tests.support.waiting import create_eventually, eventually

#: Seconds in which a dead server must be noticed, and a host be ready after its return.
NOTICED, READY = 25.0, 15.0
#: Seconds on a machine that is busy with other tests.
SLACK = 10.0
#: The server hangs for longer than the keepalive of a watch needs to find a dead path.
LONGER = 3.0
#: Changes of the busy host, one a second: four times as long as a server may be silent.
BUSY = 40

PLUGIN = """
    import ctrlhost
    from ctrlhost import For, Request

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        def reconcile(ctx, request: Request):
            print("saw", request.name, flush=True)
        plugin.add_controller("c", reconcile, For("v1", "ConfigMap", namespaces=["default"]))
"""


def of_config_maps(host: HostProcess, name: str) -> float | None:
    return host.metric(name, resource="configmaps")


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.behaviour("operations/OP125", "operations/OP126")
def test_a_server_that_hangs_is_noticed_and_the_host_goes_on_where_it_was(
    own_kube_apiserver: KubeApiserver, distributions: Any, start_host: Callable[..., HostProcess]
) -> None:
    distributions.add("watcher", PLUGIN)
    create_eventually(own_kube_apiserver.client, config_map("before"))
    host = start_host(f"--kubeconfig={own_kube_apiserver.kubeconfig}", plugins="watcher")
    host.wait_for(lambda: "saw before" in host.output, "the reconcile")
    host.eventually(lambda: host.get("/readyz")[0] == 200, "a ready host")
    assert "[+]apiserver ok\n" in host.get("/readyz?verbose")[1]
    assert host.metric("ctrlhost_apiserver_up", host=own_kube_apiserver.url.partition("//")[2]) == 1

    own_kube_apiserver.pause()
    try:
        paused = time.monotonic()
        eventually(lambda: host.get("/readyz")[0] == 503, NOTICED + SLACK, "a host that is not ready", 0.2)
        _, body = host.get("/readyz")
        assert re.search(r"\[-\]apiserver failed: no answer for \d+s \(GET /version: ", body)
        # Nothing else is said to be wrong.
        assert [line[:3] for line in body.splitlines()].count("[-]") == 1
        assert host.metric("ctrlhost_apiserver_up") == 0
        verdict = page_at(host).section("verdict")[0].text
        assert "API server does not answer: no answer for " in verdict
        assert "(GET /version: " in verdict
        assert (host.get("/livez")[0], host.get("/healthz")[0]) == (200, 200)
        # The kernel takes the request, and the server carries it out when it goes on.
        change = threading.Thread(
            target=lambda: own_kube_apiserver.client.create(config_map("meanwhile"), timeout=60), daemon=True
        )
        change.start()
        lists, staleness = (
            of_config_maps(host, f"ctrlhost_informer_{name}") for name in ("lists_total", "staleness_seconds")
        )
        assert staleness is not None
        threading.Event().wait(max(paused + NOTICED + LONGER - time.monotonic(), 0.0))
    finally:
        own_kube_apiserver.resume()
    eventually(lambda: host.get("/readyz")[0] == 200, READY + SLACK, "a ready host", 0.2)
    host.wait_for(lambda: "saw meanwhile" in host.output, "the change")
    assert of_config_maps(host, "ctrlhost_informer_lists_total") == lists == 1
    assert host.metric("ctrlhost_apiserver_up") == 1
    assert "● ready: " in page_at(host).section("verdict")[0].text
    change.join(60)
    lines = [(line["level"], line["msg"]) for line in host.lines if "API server" in line["msg"]]
    assert [level for level, _ in lines] == ["error", "info"]
    assert re.search(r"is unreachable: no answer for \d+s", lines[0][1])
    assert "is reachable again after " in lines[1][1]


SERVER = """
import signal
import sys
from ctrlhost_sandbox import Sandbox
with Sandbox(address=sys.argv[1], port=6443, kubeconfig=sys.argv[2], expose=True):
    signal.pause()
"""


def count_requests(audit: Path, path: str) -> int:
    """Return how often the server was asked for a path."""
    return sum(json.loads(line)["requestURI"] == path for line in audit.read_text().splitlines())


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.behaviour("operations/OP127")
def test_a_busy_host_sends_no_probe_and_an_idle_one_does(
    tmp_path: Path, distributions: Any, start_host: Callable[..., HostProcess]
) -> None:
    audit = tmp_path / "audit"
    distributions.add("watcher", PLUGIN)
    with Sandbox(audit_log=audit) as sandbox:
        client = Client.load(sandbox.kubeconfig)
        host = start_host(f"--kubeconfig={sandbox.kubeconfig}", plugins="watcher")
        host.eventually(lambda: host.get("/readyz")[0] == 200, "a ready host")
        pace = threading.Event()
        for number in range(BUSY):
            client.create(config_map(f"m{number}"))
            host.wait_for(lambda seen=f"saw m{number}": seen in host.output, "the reconcile")
            pace.wait(1.0)
        assert count_requests(audit, "/version") == 0
        eventually(lambda: count_requests(audit, "/version"), 30.0, "a probe of the idle host", 0.2)
        assert host.get("/readyz")[0] == 200
        client.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.behaviour("operations/OP129")
def test_a_dead_network_is_noticed_although_nothing_resets_the_connections(tmp_path: Path, distributions: Any) -> None:
    distributions.add("watcher", PLUGIN)
    environment, kubeconfig = distributions.environment(), tmp_path / "kubeconfig"
    with TwoNetworks() as networks, ExitStack() as running:
        # The command serves loopback addresses only.
        serve = [sys.executable, "-c", SERVER, THERE, str(kubeconfig)]
        process = subprocess.Popen([*networks.there, *serve], env=environment)
        running.enter_context(process)
        running.callback(process.terminate)
        eventually(kubeconfig.exists)
        host = running.enter_context(
            HostProcess(
                f"--kubeconfig={kubeconfig}", "--plugins=watcher", environment=environment, prefix=networks.here
            )
        )
        ready = f"http://{host.address}/readyz?verbose"
        eventually(lambda: networks.get(ready)[0] == 200, 60.0, "a ready host", 0.2)
        networks.cut()
        eventually(lambda: networks.get(ready)[0] == 503, 30.0 + SLACK, "a host that is not ready", 0.2)
        # Either the probes have failed, or the watch was reopened in vain.
        body = networks.get(ready)[1]
        assert "[-]apiserver failed: no answer for " in body or "[-]informer/" in body
        networks.restore()
        eventually(lambda: networks.get(ready)[0] == 200, 60.0, "a ready host", 0.2)
