"""A leader whose process was stopped beyond its lease."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import Client
from tests.support.elections import lease
from tests.support.gates import Gate
from tests.support.host_process import LIMIT
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

PLUGIN = """
    import pathlib
    import ctrlhost

    GATE = pathlib.Path("{gate}")

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        def reconcile(ctx, request):
            term = plugin.term
            ctx.log.info("begun in term %s", term)
            GATE.open().close()
            metadata = {{"name": request.name, "namespace": "default"}}
            secret = {{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {{"term": str(term)}}}}
            try:
                ctx.client.apply(secret)
            except ctrlhost.NotLeading as error:
                ctx.log.info("refused: %s", error.reason)
                raise

        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))
"""


def expired(spec: dict[str, Any]) -> bool:
    """Return whether a Lease is older than its duration."""
    renewed = datetime.fromisoformat(spec["renewTime"])
    return datetime.now(UTC) > renewed + timedelta(seconds=spec["leaseDurationSeconds"])


@pytest.mark.behaviour("supervision/LD16")
def test_a_process_that_was_stopped_beyond_its_lease_does_not_write_in_its_old_term(
    sandbox, start_host, distributions, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    distributions.add("demo", PLUGIN.format(gate=gate.path))
    client = Client.load(sandbox.kubeconfig)
    client.create(config_map("x", labels={"mine": "1"}))
    host = start_host(
        f"--kubeconfig={sandbox.kubeconfig}",
        "--leader-elect",
        "--set=host.leader_elect_lease_duration=3s",
        "--set=host.leader_elect_renew_deadline=2s",
        "--set=host.leader_elect_retry_period=200ms",
        plugins="demo",
    )
    host.line("begun in term 1")
    host.signal(signal.SIGSTOP)
    gate.open()
    eventually(lambda: expired(lease(client)), LIMIT, pause=0.1)
    host.signal(signal.SIGCONT)
    refused = host.line("refused: ")
    assert refused["msg"] in ("refused: term", "refused: deadline")
    host.line("begun in term 2")
    eventually(lambda: client.find("v1", "Secret", "x", "default"), LIMIT)
    writes = [record for record in sandbox.audit if record.resource == "secrets"]
    assert all(b'"term":"2"' in write.body for write in writes), writes
    assert host.metric("controller_runtime_reconcile_errors_total", controller="demo/c") == 0
    reason = refused["msg"].removeprefix("refused: ")
    assert host.metric("ctrlhost_writes_refused_total", plugin="demo", reason=reason) == 1
    assert lease(client)["leaseTransitions"] == 0
    gate.close()
    client.close()
