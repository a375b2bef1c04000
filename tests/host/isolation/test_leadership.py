"""How an isolated plugin follows a lease: its own, or that of its host."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from ctrlhost import Client
from ctrlhost.coordination.lease import API_VERSION
from ctrlhost.errors import Conflict
from tests.host.conftest import StartHost
from tests.support.elections import hold_lease, lease
from tests.support.host_process import LIMIT, HostProcess
from tests.support.isolated_plugins import BAD, child_of, running
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

TIMES = (
    "--set=host.leader_elect_lease_duration=3s",
    "--set=host.leader_elect_renew_deadline=2s",
    "--set=host.leader_elect_retry_period=200ms",
)

#: Writes although it does not lead.
SYNCED = """
    @ctrlhost.hookimpl
    def ctrlhost_synced(plugin):
        metadata = {"name": "synced", "namespace": "default"}
        try:
            plugin.client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        except ctrlhost.NotLeading as error:
            plugin.log.info("synced without leading: %s", error.reason)
"""


@pytest.fixture
def start(sandbox: Any, start_host: StartHost, distributions: Any) -> Any:
    """Start hosts with `bad` isolated and leader election."""
    distributions.add("bad", BAD)

    def start_isolated(*arguments: str) -> HostProcess:
        kubeconfig = f"--kubeconfig={sandbox.kubeconfig}"
        return start_host(kubeconfig, "--isolate=bad", "--leader-elect", *TIMES, *arguments, plugins="bad")

    return start_isolated


def writes(sandbox: Any) -> list[Any]:
    return [record for record in sandbox.audit if record.resource == "secrets" and record.code < 300]


def lines(host: HostProcess, beginning: str) -> list[str]:
    return [line["msg"] for line in list(host.lines) if line["msg"].startswith(beginning)]


def hand_over(client: Client, holder: str) -> None:
    """Write another holder of the lease, "" for none, until that succeeds between two renewals."""

    def written() -> bool:
        obj = client.get(API_VERSION, "Lease", "ctrlhost", "default")
        obj["spec"].update(holderIdentity=holder, leaseDurationSeconds=3600)
        try:
            client.replace(obj)
        except Conflict:
            return False
        return True

    eventually(written, LIMIT)


@pytest.mark.behaviour("supervision/PI16")
def test_a_process_does_not_write_beyond_the_lease_of_its_host(sandbox: Any, client: Client, start: Any) -> None:
    host = start()
    client.create(config_map("writer", labels={"mine": "1"}))
    host.line("begun: writer")
    host.line("elected in term 1")
    eventually(lambda: len(writes(sandbox)) > 5, LIMIT)
    host.signal(signal.SIGSTOP)
    # The process writes on while the term lasts.
    assert host.line("refused: ")["msg"] == "refused: deadline"
    seen = len(writes(sandbox))
    before = len(lines(host, "refused: "))
    host.wait_for(lambda: len(lines(host, "refused: ")) > before + 20, "refusals")
    assert len(writes(sandbox)) == seen
    assert all(b'"term":"1"' in write.body for write in writes(sandbox))
    host.signal(signal.SIGCONT)
    host.line("elected in term 2")
    eventually(lambda: len(writes(sandbox)) > seen + 5, LIMIT)
    assert all(b'"term":"2"' in write.body for write in writes(sandbox)[seen:])
    assert host.stop() == 0


@pytest.mark.behaviour("supervision/PI17")
def test_another_replica_leads_when_a_process_with_its_own_lease_hangs(
    sandbox: Any, client: Client, start: Any
) -> None:
    own = ("--set=host.leader_elect_plugins=bad", "--set=supervision.bad.heartbeat_timeout=1h")
    process = start(*own)
    client.create(config_map("writer", labels={"mine": "1"}))
    child = child_of(process.line("begun: writer"))
    holder = lease(client, "ctrlhost-bad")["holderIdentity"]
    other = start(*own)
    second = child_of(other.line("set up in"))
    eventually(lambda: writes(sandbox), LIMIT)
    assert not lines(other, "begun: writer")
    os.kill(child, signal.SIGSTOP)
    other.line("elected in term 1")
    other.line("begun: writer")
    spec = lease(client, "ctrlhost-bad")
    assert spec["holderIdentity"] != holder
    assert spec["leaseTransitions"] == 1
    assert running(child)
    taken = len(writes(sandbox))
    eventually(lambda: len(writes(sandbox)) > taken + 5, LIMIT)
    # The one that hung goes on, and neither writes nor takes the lease back.
    os.kill(child, signal.SIGCONT)
    refused = process.line("refused: ")
    assert refused["pid"] == child
    assert refused["msg"] in ("refused: deadline", "refused: term")
    assert lease(client, "ctrlhost-bad")["holderIdentity"] == spec["holderIdentity"]
    assert other.stop() == 0
    assert not running(second)
    assert process.stop() == 0


def test_a_process_writes_only_while_its_host_leads(
    sandbox: Any, client: Client, start_host: StartHost, distributions: Any
) -> None:
    distributions.add("bad", BAD + SYNCED)
    hold_lease(client)
    client.create(config_map("writer", labels={"mine": "1"}))
    host = start_host(f"--kubeconfig={sandbox.kubeconfig}", "--isolate=bad", "--leader-elect", *TIMES, plugins="bad")
    refused = host.line("synced without leading: term")
    assert not writes(sandbox)
    assert not lines(host, "begun: writer")
    hand_over(client, "")
    host.line("elected in term 1")
    child = child_of(host.line("begun: writer"))
    assert refused["pid"] == child
    eventually(lambda: writes(sandbox), LIMIT)
    # Longer than the lease: the process hears of each renewal.
    began = time.monotonic()
    eventually(lambda: time.monotonic() > began + 4, LIMIT, pause=0.1)
    assert not lines(host, "refused: ")
    assert host.metric("leader_election_master_status", name="ctrlhost") == 1
    assert host.stop() == 0
    assert not running(child)
    assert not lease(client)["holderIdentity"]


def test_a_lease_that_is_lost_stops_the_writes_of_a_process(sandbox: Any, client: Client, start: Any) -> None:
    host = start()
    client.create(config_map("writer", labels={"mine": "1"}))
    host.line("elected in term 1")
    eventually(lambda: writes(sandbox), LIMIT)
    hand_over(client, "another replica")
    host.line("refused: ")
    seen, before = len(writes(sandbox)), len(lines(host, "refused: "))
    host.wait_for(lambda: len(lines(host, "refused: ")) > before + 20, "refusals")
    assert len(writes(sandbox)) == seen
    hand_over(client, "")
    host.line("elected in term 2")
    eventually(lambda: len(writes(sandbox)) > seen, LIMIT)
    assert host.stop() == 0
