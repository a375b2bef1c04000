"""Replicas that resign: their Lease goes to another one when their work has ended, and they stand again later."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.host.admin import Admin
from ctrlhost.testing import ManualClock
from tests.host.conftest import Distributions, StartHost
from tests.support import fork_server
from tests.support.admin import ACTING, act, done, socket_of
from tests.support.elections import LEASE_DURATION, LIMIT, lease
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
#: The Lease of real processes, in seconds: as short as a busy machine allows.
TIMES = ("lease_duration=4s", "renew_deadline=3s", "retry_period=1s")


class Working:
    """A plugin whose reconcile waits, and then writes."""

    def __init__(self) -> None:
        self.plugin: Any = None
        self.runs, self.go_on = threading.Event(), threading.Event()
        self.outcomes: list[str] = []

    def setup(self, plugin: ctrlhost.PluginContext) -> None:
        self.plugin = plugin
        plugin.add_controller("c", self.reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="held"))

    def reconcile(self, ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
        self.runs.set()
        assert self.go_on.wait(LIMIT)
        try:
            ctx.client.create(config_map("written"))
        except ctrlhost.NotLeading:
            self.outcomes.append("refused")
        else:
            self.outcomes.append("written")


def resign(host: Any, **fields: str) -> tuple[int, Any]:
    status, body = Admin(host.host.state).act("resign", json.dumps(fields).encode(), "the test")
    return status, json.loads(body)


@behaviour("oncall/OC33")
def test_the_lease_is_released_after_the_drain_and_the_replica_stands_again(
    sandbox: Sandbox, ctrlhost_host: Callable[..., Any]
) -> None:
    # No clock moves by itself, so nobody waits for the end of a lease, nor renews one.
    works, stands_by = Working(), Working()
    stands_by.go_on.set()
    first = ctrlhost_host(plugin_of(works.setup), sandbox=sandbox, clock=ManualClock(), leader_elect=True)
    eventually(lambda: works.plugin.term == 1, LIMIT)
    identity = first.host.leadership.identity
    first.client.create(config_map("held", labels={"held": ""}))
    assert works.runs.wait(LIMIT)
    second = ctrlhost_host(plugin_of(stands_by.setup), sandbox=sandbox, clock=ManualClock(), leader_elect=True)
    eventually(lambda: stands_by.plugin.leader == identity, LIMIT)
    refusal = {"error": "this replica does not lead for all plugins", "hint": f"{identity} leads: ask that replica"}
    assert resign(second) == (409, refusal)

    assert resign(first) == (200, {"leases": ["ctrlhost"], "seconds": 2 * LEASE_DURATION, "runs": False})
    assert works.plugin.term is None
    assert resign(first)[0] == 409
    # A reconcile still runs.
    assert lease(first.client)["holderIdentity"] == identity
    works.go_on.set()
    eventually(lambda: stands_by.plugin.term == 1, LIMIT)
    assert works.outcomes == ["refused"]
    eventually(lambda: stands_by.outcomes == ["written"], LIMIT)

    # Not yet a candidate: a free Lease stays free.
    first.clock.advance(2 * LEASE_DURATION - 1)
    assert resign(second, plugin="demo")[0] == 200
    eventually(lambda: works.plugin.leader == "", LIMIT)
    assert works.plugin.term is None
    first.clock.advance(1)
    eventually(lambda: works.plugin.term == 2, LIMIT)
    assert lease(first.client)["holderIdentity"] == identity


@behaviour("oncall/OC33")
def test_work_that_hangs_keeps_the_lease_until_it_expires(sandbox: Sandbox, ctrlhost_host: Callable[..., Any]) -> None:
    works = Working()
    host = ctrlhost_host(plugin_of(works.setup), sandbox=sandbox, clock=ManualClock(), leader_elect=True)
    eventually(lambda: works.plugin.term == 1, LIMIT)
    host.client.create(config_map("held", labels={"held": ""}))
    assert works.runs.wait(LIMIT)
    assert resign(host)[0] == 200

    def again() -> bool:
        if works.plugin.term == 2:
            return True
        # The thread may begin only after the clock has moved.
        host.clock.advance(LEASE_DURATION)
        return False

    eventually(again, LIMIT, pause=0.1)
    holders = [
        record.body for record in sandbox.audit if record.resource == "leases" and b'"holderIdentity":""' in record.body
    ]
    assert holders == []
    works.go_on.set()


@behaviour("oncall/OC33")
@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"plugin": "demos"}, 404, "no plugin `demos`"),
        ({"plugin": "demo"}, 409, "plugin `demo` shares its Lease with other"),
        ({"lease": "ctrlhost"}, 400, "unknown field `lease`"),
    ],
)
def test_mistakes(
    sandbox: Sandbox, ctrlhost_host: Callable[..., Any], fields: dict[str, str], status: int, error: str
) -> None:
    works, other = Working(), Working()
    plugins = plugin_of(works.setup), plugin_of(other.setup, "other")
    host = ctrlhost_host(*plugins, sandbox=sandbox, clock=ManualClock(), leader_elect=True)
    eventually(lambda: works.plugin.term == 1, LIMIT)
    answer = resign(host, **fields)
    assert (answer[0], answer[1]["error"]) == (status, error)
    assert works.plugin.term == 1
    without = ctrlhost_host(plugin_of(Working().setup), sandbox=sandbox)
    assert resign(without)[1]["error"] == "this host runs without leader election"


@behaviour("oncall/OC33")
@pytest.mark.parametrize("own", ["", "apart"], ids=["shared", "own"])
def test_isolated_plugins_resign_from_a_shared_lease_and_from_their_own(
    start_host: StartHost, distributions: Distributions, tmp_path_factory: pytest.TempPathFactory, own: str
) -> None:
    for name in ("inside", "apart"):
        distributions.add(name, ACTING)
    runtime = Path(tmp_path_factory.mktemp("r"))
    arguments = [f"--set=host.leader_elect_{time}" for time in TIMES]
    arguments += [f"--set=host.leader_elect_plugins={own}"] if own else []
    host = start_host(
        "--sandbox",
        "--admin",
        "--leader-elect",
        "--isolate=apart",
        *arguments,
        plugins="inside,apart",
        XDG_RUNTIME_DIR=str(runtime),
    )
    for name in ("inside", "apart"):
        host.line(f"plugin {name} running")
    wanted = ["ctrlhost-apart"] if own else ["ctrlhost"]
    for name in ["ctrlhost", *(["ctrlhost-apart"] if own else [])]:
        host.line("became leader of lease", f"/{name}")
    if own:
        status, answer = act(host, "resign", plugin="inside")
        assert (status, answer["leases"]) == (200, ["ctrlhost"])
    done_ = fork_server.run(
        "resign",
        f"--socket={socket_of(host)}",
        *(["--plugin=apart"] if own else []),
        env=distributions.environment(),
    )
    assert done_.returncode == 0, done_.stderr
    assert done_.stdout == f"resigned from 1 Lease: {wanted[0]}; this replica is a candidate again in 8 s\n"
    after = len(host.lines)
    host.line("released lease", wanted[0])
    host.line(f"{wanted[0]}: this replica is a candidate again")
    host.line("became leader of lease", wanted[0], after=after)
    assert host.line("admin: resign")["level"] == "info"
    assert done(host, "resign")["leases"] != []
