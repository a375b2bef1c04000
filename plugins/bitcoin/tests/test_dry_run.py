"""A dry run: daemons are asked, and not changed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from plugins.bitcoin.tests.cluster import NAME


def test_a_dry_run_changes_no_daemon_and_no_object(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ctrlhost")
    replica = cluster.start()
    cluster.net(2)
    first, second = cluster.pods(2)
    assert first.added == ["10.0.0.2"]
    cluster.replicas.remove(replica)
    replica.host.stop()
    first.forget()
    first.added.append("10.0.0.77")
    cluster.edit(nodes=3)
    cluster.secret("other")
    seen, status = [len(first.calls), len(second.calls)], cluster.status()
    before, set_before = cluster.status(), cluster.sts()
    replica = cluster.start(dry_run=True)
    cluster.after(61, step=31)
    assert set(first.called()[seen[0] :]) | set(second.called()[seen[1] :]) == {"getaddednodeinfo"}
    assert first.added == ["10.0.0.77"]
    assert (cluster.status(), cluster.sts()) == (before, set_before)
    assert status == before
    assert all("dryRun" in str(sent.body) or sent.method != "DELETE" for sent in replica.writes())
    planned = [line for line in caplog.messages if "dry run: would have" in line]
    assert planned == [f"dry run: would have {NAME}-sts-0: add 10.0.0.2, remove 10.0.0.77, dial 10.0.0.2"]
    (line,) = (line for line in caplog.messages if "would update StatefulSet" in line)
    assert "spec.replicas: 2 -> 3" in line
