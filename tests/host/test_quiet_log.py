"""The log of the four bundled plugins: nothing that says nothing, and no warning on a replica that stands by."""

from __future__ import annotations

import re
from typing import Any

import pytest

ALL = "bitcoin,hostname,ingress-status,naming"


@pytest.mark.behaviour("oncall/OC20")
def test_start_standby_and_stop_of_the_plugins_log_nothing_that_says_nothing(start_host: Any) -> None:
    settings = ("--leader-elect", "--set=hostname.rest-address=127.0.0.1", "--set=hostname.rest-port=0")
    leader = start_host("--sandbox", "--install-crds", *settings, plugins=ALL)
    for name in ALL.split(","):
        leader.line(f"plugin {name} running")
    standby = start_host(f"--kubeconfig={leader.kubeconfig}", *settings, plugins=ALL)
    for name in ALL.split(","):
        standby.line(f"plugin {name} running")
    assert standby.stop() == 0
    assert leader.stop() == 0
    for host in (leader, standby):
        assert [line["msg"] for line in host.lines if re.search(r"\b0 \w+", line["msg"])] == []
        assert host.lines[-1]["msg"] == "stopped"
    assert [line for line in standby.lines if line["level"] not in ("info", "debug")] == []
