"""What `/readyz?verbose` says of shards: member, ranges, share, what is awaited, what only some members have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from ctrlhost_sandbox import Options, Sandbox

import ctrlhost
from ctrlhost.testing import HostUnderTest
from ctrlhost.testing.fault_proxy import Fault
from tests.host.test_shards import LIMIT, TIMES, Fleet, Stamper
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

SHARDS = {"enabled": True}


@pytest.fixture(params=[True])
def gate(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def fleet(gate: bool, ctrlhost_host: Any) -> Iterator[Fleet]:
    with ExitStack() as stack:
        options = Options(feature_gates={"ShardedListAndWatch": gate})
        fleet = Fleet(stack.enter_context(Sandbox(options=options)), ctrlhost_host)
        yield fleet
        for host in fleet.hosts.values():
            host.host.stop(0)


def readiness(host: HostUnderTest) -> tuple[int, str]:
    """Return the status of `/readyz` and the line of the shards."""
    try:
        with urlopen(f"http://{host.host.address}/readyz?verbose") as answer:
            code, body = answer.status, answer.read().decode()
    except HTTPError as error:
        code, body = error.code, error.read().decode()
    (line,) = [line for line in body.splitlines() if line.startswith(("[+]shards", "[-]shards"))]
    return code, line


def member_of(host: HostUnderTest) -> str:
    return str(host.host.state.shards.membership.name)


def test_member_ranges_and_share_of_all_members(fleet):
    first = fleet.start("a")
    eventually(lambda: readiness(first)[0] == 200, LIMIT)
    total = len(fleet.map.lines["namespace"])
    line = f"[+]shards ok: {member_of(first)} has {total} of {total} ranges, 100% of 1 member"
    assert readiness(first) == (200, line)
    second = fleet.start("b")
    eventually(lambda: fleet.balanced("a", "b"), LIMIT, pause=0.05)

    def both() -> bool:
        lines = {readiness(host) for host in (first, second)}
        owners = fleet.owners()
        total = sum(owners.values())
        wanted = [f"[+]shards ok: {name} has {count} of {total} ranges, " for name, count in owners.items()]
        return {code for code, _ in lines} == {200} and all(
            any(line.startswith(start) and line.endswith("% of 2 members") for _, line in lines) for start in wanted
        )

    eventually(both, LIMIT, pause=0.05)


def test_a_replica_is_not_ready_while_it_lists_what_it_should_have(sandbox, faults, ctrlhost_host):
    proxy = faults(sandbox)
    for verb in ("list", "watch"):
        proxy.next(Fault.stall(), verb=verb, resource="configmaps", times=2)
    host = ctrlhost_host(
        Stamper("a").plugin(), sandbox=sandbox, through=proxy, shards=SHARDS, listen="127.0.0.1:0", **TIMES
    )
    code, line = eventually(lambda: "waits for" in (now := readiness(host))[1] and now, LIMIT)
    assert code == 503
    ranges = len(host.host.state.shards.ownership.phases())
    assert line == (
        f"[-]shards failed: waits for {ranges} ranges; {member_of(host)} has {ranges} of {ranges} ranges, "
        "100% of 1 member"
    )
    proxy.calm()
    proxy.drop()
    eventually(lambda: readiness(host)[0] == 200, LIMIT)


@pytest.mark.parametrize("gate", [True, False], indirect=True)
def test_where_the_server_filter_is_required_a_replica_is_ready_only_with_it(fleet, gate):
    def setup(plugin: ctrlhost.PluginContext) -> None:
        sources = [ctrlhost.For("v1", "ConfigMap"), ctrlhost.Owns("v1", "Secret"), ctrlhost.Owns("v1", "Service")]
        plugin.add_controller("c", lambda _ctx, _request: None, *sources, shard_by="namespace")

    for kind in ("Secret", "Service"):
        body: dict[str, Any] = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "one", "namespace": "team-1"}}
        fleet.client.create({**body, **({"spec": {"ports": [{"port": 80}]}} if kind == "Service" else {})})
    host = fleet.hosts["a"] = fleet._start(
        plugin_of(setup, "shop"),
        sandbox=fleet.sandbox,
        shards={**SHARDS, "require_server_filter": True},
        listen="127.0.0.1:0",
        **TIMES,
    )
    if gate:
        eventually(lambda: readiness(host)[0] == 200, LIMIT)
        assert fleet.hosts["a"].host.factory.ranges.unfiltered() == []
        return
    text = "the API server does not filter configmaps, secrets, services (hint: feature ShardedListAndWatch)"
    code, line = eventually(lambda: text in (now := readiness(host))[1] and now, LIMIT)
    assert (code, line.startswith(f"[-]shards failed: {text}; {member_of(host)} has ")) == (503, True)
    # It works all the same.
    eventually(lambda: len(host.host.plugins[0].controllers[0].informers[0].lister.list()) >= 120, LIMIT)


def test_a_controller_that_only_some_members_have_is_named_with_its_share(fleet):
    class Newer(Stamper):
        def plugin(self) -> Any:
            def setup(plugin: ctrlhost.PluginContext) -> None:
                self.context = plugin
                source = ctrlhost.For("v1", "ConfigMap", label_selector="stamp=yes")
                for name in ("stamps", "new"):
                    plugin.add_controller(name, lambda _ctx, _request: None, source, shard_by="namespace")

            return plugin_of(setup, "stamper")

    first = fleet.start("a")
    eventually(lambda: len(set(fleet.stampers["a"].runs)) == 120, LIMIT)
    second = fleet.start("b", Newer("b"))
    text = "; stamper/new runs for {:.0%} of the objects: not every member has it yet"
    part = second.host.state.shards.share
    eventually(lambda: readiness(second)[1].endswith(text.format(part())) and part() > 0.3, LIMIT, pause=0.05)
    assert part() < 0.7
    assert readiness(second)[0] == 200
    assert "stamper/" not in readiness(first)[1]
    assert first.host.stop()
    eventually(lambda: readiness(second)[1].endswith(" 100% of 1 member"), LIMIT, "all that are left have it")
