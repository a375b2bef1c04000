"""Replicas of a host that share the keys of a controller, on one sandbox, judged by its audit log."""

from __future__ import annotations

import itertools
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.request import urlopen

import pytest
from ctrlhost_sandbox import Options, Sandbox

import ctrlhost
from ctrlhost import Request
from ctrlhost.coordination.fleet import FLEET
from ctrlhost.coordination.lease import API_VERSION
from ctrlhost.coordination.shard_map import parse
from ctrlhost.errors import Conflict, NotLeading
from ctrlhost.supervisor.containment import Failure
from ctrlhost.testing import HostUnderTest
from tests.host.sharded_replicas import owner_in
from tests.support.objects import config_map
from tests.support.plugin_modules import plugin_of
from tests.support.status import status_of
from tests.support.status_page import page_at
from tests.support.waiting import eventually

LIMIT = 60.0
LEASE = 6.0
NAMESPACES = [f"team-{number}" for number in range(40)]
TIMES = {
    "leader_elect_lease_duration": f"{LEASE}s",
    "leader_elect_renew_deadline": "4s",
    "leader_elect_retry_period": "1s",
}
SELECTOR = "stamp=yes"


def stamped(name: str, namespace: str) -> dict[str, Any]:
    return config_map(name, {}, namespace=namespace, labels={"stamp": "yes"})


class Stamper:
    """A plugin whose controller writes the name of its replica into each object, once or `every` few seconds."""

    def __init__(self, name: str, *, every: float | None = None, shard_by: str | None = "namespace") -> None:
        self.name = name
        self.every = every
        self.runs: list[ctrlhost.Request] = []
        self.refused: list[str] = []
        #: Called in each run before the write.
        self.during: Callable[[Any, ctrlhost.Request], None] = lambda _ctx, _request: None
        self.context: Any = None
        self.options: dict[str, Any] = {"shard_by": shard_by, "workers": 4}

    def plugin(self) -> Any:
        def setup(plugin: ctrlhost.PluginContext) -> None:
            self.context = plugin
            plugin.add_controller(
                "stamps",
                self.reconcile,
                # Its own writes trigger no reconcile.
                ctrlhost.For("v1", "ConfigMap", label_selector=SELECTOR, predicates=[lambda old, _: old is None]),
                **self.options,
            )

        return plugin_of(setup, "stamper")

    def reconcile(self, ctx: Any, request: ctrlhost.Request) -> ctrlhost.Result | None:
        obj = ctx.get(request)
        if obj is None:
            return None
        self.runs.append(request)
        self.during(ctx, request)
        metadata = {key: obj.to_dict()["metadata"][key] for key in ("name", "namespace", "labels", "resourceVersion")}
        count = int((obj.to_dict().get("data") or {}).get("count", 0)) + 1
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        try:
            ctx.client.replace({**body, "data": {"by": self.name, "count": str(count)}})
        except NotLeading as error:
            self.refused.append(error.reason)
            raise
        except Conflict:
            pass
        return None if self.every is None else ctrlhost.Result(requeue_after=self.every)


class Fleet:
    """Replicas on one sandbox."""

    def __init__(self, sandbox: Sandbox, start: Callable[..., HostUnderTest]) -> None:
        self.sandbox, self._start = sandbox, start
        self.client = ctrlhost.Client.load(sandbox.kubeconfig)
        for name in NAMESPACES:
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            for number in range(3):
                self.client.create(stamped(f"object-{number}", name))
        self.stampers: dict[str, Stamper] = {}
        self.hosts: dict[str, HostUnderTest] = {}

    def start(
        self, name: str, stamper: Stamper | None = None, options: dict[str, Any] | None = None, **shards: Any
    ) -> HostUnderTest:
        stamper = self.stampers[name] = stamper or Stamper(name)
        options = {"listen": "127.0.0.1:0", **TIMES, **(options or {})}
        host = self.hosts[name] = self._start(
            stamper.plugin(), sandbox=self.sandbox, shards={"enabled": True, **shards}, **options
        )
        return host

    @property
    def map(self) -> Any:
        lease = self.client.get(API_VERSION, "Lease", "ctrlhost-shards", "default")
        return parse(lease["metadata"]["annotations"]["ctrlhost.dev/shards"])

    def owners(self) -> dict[str, int]:
        """Return the number of ranges of each member."""
        counts: dict[str, int] = defaultdict(int)
        for entry in self.map.lines["namespace"]:
            counts[entry.owner.lease if entry.owner else ""] += 1
        return dict(counts)

    def owner_of_each(self) -> dict[str, Any]:
        """Return the owner of each namespace; unlike ranges they are not cut or joined."""
        shards = self.map
        return {name: owner_in(shards, name) for name in NAMESPACES}

    def cached(self, name: str) -> set[tuple[str, str]]:
        """Return the objects in the cache of a replica."""
        (controller,) = self.hosts[name].host.plugins[0].controllers
        (informer,) = controller.informers
        return {(obj.namespace, obj.name) for obj in informer.lister.list()}

    def balanced(self, *names: str) -> bool:
        """Return whether each object is in the cache of one of these replicas, and none has much more than others."""
        caches = [self.cached(name) for name in names]
        total = len(NAMESPACES) * 3
        distinct = sum(map(len, caches)) == total == len(set().union(*caches))
        return distinct and all(0.5 < len(cache) * len(names) / total < 1.5 for cache in caches)

    def writes(self) -> dict[tuple[str, str], list[tuple[float, str, int]]]:
        """Return the writes of replicas to each object: when they arrived, by whom, and the answer."""
        writes: dict[tuple[str, str], list[tuple[float, str, int]]] = defaultdict(list)
        for record in sorted(self.sandbox.audit, key=lambda record: record.monotonic):
            if record.resource == "configmaps" and record.verb == "update":
                writes[record.namespace, record.name].append(
                    (record.monotonic, json.loads(record.body)["data"]["by"], record.code)
                )
        return writes

    def check(self) -> None:
        """Check that of no object two replicas wrote by turns: each writes again only if it has got the object back."""
        for key, writes in self.writes().items():
            names = [name for name, _ in itertools.groupby(name for _, name, code in writes if code == 200)]
            assert len(names) == len(set(names)), f"{key} was written by turns: {names}"


@pytest.fixture(params=[pytest.param(True, id="gate on"), pytest.param(False, id="gate off", marks=pytest.mark.slow)])
def gate(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def fleet(gate: bool, ctrlhost_host: Callable[..., HostUnderTest]) -> Iterator[Fleet]:
    with ExitStack() as stack:
        options = Options(feature_gates={"ShardedListAndWatch": gate})
        fleet = Fleet(stack.enter_context(Sandbox(options=options)), ctrlhost_host)
        yield fleet
        for host in fleet.hosts.values():
            # Before its server.
            host.host.stop(0)


def wait_until_balanced(fleet: Fleet, *names: str) -> None:
    eventually(lambda: fleet.balanced(*names), LIMIT, f"{names} share the objects", pause=0.05)


@pytest.mark.behaviour("shards/SH75")
def test_replicas_share_the_keys_of_a_controller(fleet):
    names = ("a", "b", "c")
    for name in names:
        fleet.start(name)
    wait_until_balanced(fleet, *names)
    eventually(lambda: len(fleet.writes()) == len(NAMESPACES) * 3, LIMIT, "each object was stamped", pause=0.05)
    shares = [len(fleet.cached(name)) for name in names]
    assert max(shares) <= 1.15 * sum(shares) / 3 + 3, shares
    fleet.check()
    for name in names:
        (controller,) = fleet.hosts[name].host.plugins[0].controllers
        eventually(lambda status=controller.status: status().queued == 0, LIMIT)
        assert controller.status().errors == 0
    # An event goes to the owner alone.
    before = {name: len(fleet.stampers[name].runs) for name in names}
    fleet.client.create(stamped("late", "team-7"))
    key = ctrlhost.Request("late", "team-7")
    eventually(lambda: any(key in fleet.stampers[name].runs[before[name] :] for name in names), LIMIT)
    owners = [name for name in names if fleet.stampers[name].context.owns(key)]
    assert len(owners) == 1
    assert all(key not in fleet.stampers[name].runs for name in names if name not in owners)


@pytest.mark.behaviour("shards/SH76", "shards/SH77")
def test_keys_move_under_writes_when_a_replica_joins_and_one_stops(fleet):
    for name in ("a", "b"):
        fleet.start(name, Stamper(name, every=0.2))
    wait_until_balanced(fleet, "a", "b")
    fleet.start("c", Stamper("c", every=0.2))
    wait_until_balanced(fleet, "a", "b", "c")
    assert fleet.hosts["a"].host.stop(), "its work ended in time"
    wait_until_balanced(fleet, "b", "c")
    stopped = max(at for writes in fleet.writes().values() for at, name, _ in writes if name == "a")
    lost = [key for key, writes in fleet.writes().items() if any(name == "a" for _, name, _ in writes)]
    eventually(
        lambda: all(any(at > stopped for at, _, _ in fleet.writes()[key]) for key in lost), LIMIT, "others write them"
    )
    fleet.check()
    assert all(stamper.refused == [] for stamper in fleet.stampers.values())


@pytest.mark.behaviour("shards/SH20")
def test_a_replica_does_not_wait_for_takers_that_min_members_excludes(fleet):
    shards = {"min_members": 3, "handover_timeout": "1h"}
    fleet.start("a", **shards)
    fleet.start("b", **shards)
    parts = 2 / 3 * len(NAMESPACES) * 3
    eventually(lambda: len(fleet.cached("a")) + len(fleet.cached("b")) >= 0.8 * parts, LIMIT, "two thirds")
    before = fleet.cached("b")
    assert fleet.hosts["a"].host.stop()
    assert fleet.cached("b") == before


@pytest.mark.behaviour("shards/SH39")
@pytest.mark.parametrize("gate", [True], indirect=True)
def test_a_replica_notices_at_once_that_its_lease_was_deleted(fleet):
    hour = {"leader_elect_lease_duration": "3h", "leader_elect_renew_deadline": "2h", "leader_elect_retry_period": "1h"}
    membership = fleet.start("a", options=hour).host.state.shards.membership
    wait_until_balanced(fleet, "a")
    before = membership.incarnation
    fleet.client.delete(API_VERSION, "Lease", membership.name, "default")
    eventually(lambda: membership.incarnation != before, LIMIT, "it has a Lease again, long before it would renew it")


@pytest.mark.behaviour("shards/SH31")
@pytest.mark.parametrize("gate", [True], indirect=True)
def test_a_run_that_lasts_keeps_its_range_alone(fleet):
    stamper, go_on, entered = Stamper("a"), threading.Event(), threading.Event()
    leading: list[tuple[bool, bool]] = []

    def during(ctx: Any, request: ctrlhost.Request) -> None:
        if request == ctrlhost.Request("stuck", "team-0"):
            entered.set()
            assert go_on.wait(LIMIT)
            leading.append((ctx.leading, stamper.context.owns(request)))

    stamper.during = during
    host = fleet.start("a", stamper)
    fleet.client.create(stamped("stuck", "team-0"))
    assert entered.wait(LIMIT)
    other = fleet.start("b")
    shards, now = host.host.state.shards, host.host.clock.now
    eventually(lambda: len(fleet.cached("b")) > 30, LIMIT, pause=0.05)
    stopping = threading.Thread(target=host.host.state.shards.hand_over, args=(1.0,))
    stopping.start()
    eventually(lambda: len(shards.ownership.phases()) == 1, LIMIT, "all ranges but one are given", pause=0.05)
    (span,) = shards.ownership.phases()
    assert [run.place for run in shards.ownership.running(span)] == [
        ctrlhost._core.shard_hash("team-0")  # type: ignore[attr-defined]
    ]
    assert shards.shards.closing_for(0.0) == [span]
    assert shards.shards.closing_for(now()) == []
    assert not other.host.plugins[0].controllers[0].owns(ctrlhost.Request("stuck", "team-0"))
    go_on.set()
    stopping.join(LIMIT)
    # It may write until the range is given.
    eventually(lambda: leading == [(True, False)], LIMIT)
    assert stamper.refused == []


@pytest.mark.behaviour("shards/SH87")
@pytest.mark.parametrize("gate", [True], indirect=True)
def test_a_range_that_moves_is_named_with_its_owner_and_claimant_everywhere(fleet, ctrlhost):
    stamper, go_on, entered = Stamper("a"), threading.Event(), threading.Event()

    def during(_ctx: Any, request: Request) -> None:
        if request == Request("stuck", "team-0"):
            entered.set()
            assert go_on.wait(LIMIT)

    stamper.during = during
    first = fleet.start("a", stamper)
    fleet.client.create(stamped("stuck", "team-0"))
    assert entered.wait(LIMIT)
    second = fleet.start("b")
    eventually(lambda: len(fleet.cached("b")) > 30, LIMIT, pause=0.05)
    stopping = threading.Thread(target=first.host.state.shards.hand_over, args=(LIMIT,))
    stopping.start()
    try:
        shards, owned = second.host.state.shards, first.host.state.shards.ownership
        eventually(lambda: len(owned.phases()) == 1, LIMIT, "all ranges but one are given", pause=0.05)
        (span,) = owned.phases()
        url, start = f"http://{second.host.address}", f"{span.start:016x}"

        def moving() -> list[dict[str, Any]]:
            return [row for row in status_of(second)["shards"]["ranges"] if row["claimant"]]

        (row,) = eventually(lambda: len(rows := moving()) == 1 and rows, LIMIT, "one range moves", pause=0.05)
        owner, claimant = first.host.state.shards.membership.name, shards.membership.name
        assert (row["line"], row["start"], row["owner"], row["claimant"]) == ("namespace", start, owner, claimant)
        # The page has what moves first.
        cells = page_at(second, "/").rows("shards")[0]
        assert (cells["Range"], cells["Owner"], cells["Claimant"]) == (f"namespace {start}", owner, claimant)
        # Of the members, the one that leaves is first.
        leaves, stays = status_of(second)["shards"]["members"]
        if not leaves["leaving"]:
            leaves, stays = stays, leaves
        assert (leaves["name"], leaves["ranges"], leaves["mine"]) == (owner, 1, False)
        assert (stays["name"], stays["leaving"], stays["mine"]) == (claimant, False, True)
        assert leaves["share"] + stays["share"] == pytest.approx(1)
        assert 0 <= leaves["renewed_seconds"] < LEASE
        rows = page_at(second, "/").rows("members")
        states = [(row["Member"], row["State"].split(" ", 1)[1], row["Ranges"]) for row in rows]
        assert states == [(owner, "leaves", "1"), (claimant, "this replica", str(stays["ranges"]))]
        assert rows[0]["Renewed"].endswith("s")
        top = ctrlhost("top", "--once", f"--url={url}").stdout
        assert f"shards: {claimant} has " in top
        (line,) = [line for line in top.splitlines() if line.startswith(owner)]
        assert line.split()[1:3] == [f"{leaves['share']:.0%}", "1"]
        assert line.endswith("leaves")
        assert f"namespace {start}  {owner}  {claimant}" in top
        printed = ctrlhost("shards", "--ranges", "--namespace=default", f"--kubeconfig={fleet.sandbox.kubeconfig}")
        (line,) = [line for line in printed.stdout.splitlines() if start in line]
        assert line.split()[:4] == ["namespace", start, owner, claimant]
        report = json.loads(urlopen(f"{url}/debug/shards").read())
        (reported,) = [each for each in report["map"]["ranges"] if each["claimant"]]
        assert (reported["start"], reported["owner"], reported["claimant"]) == (start, owner, claimant)
        explained = ctrlhost("explain-key", f"--url={url}", "stamper/stamps", "team-0/stuck").stdout
        assert f"{owner} owns its range {start} of namespace" in explained
        assert f"claimed by {claimant}" in explained
    finally:
        go_on.set()
        stopping.join(LIMIT)


def fail(host: HostUnderTest) -> None:
    """Let the plugin of a replica fail for good."""
    (plugin,) = host.host.plugins
    plugin.attempt_failed(plugin.attempt, Failure("gave up", final=True))


@pytest.mark.behaviour("shards/SH44")
@pytest.mark.parametrize("gate", [True], indirect=True)
def test_a_replica_leaves_while_its_plugin_has_failed_unless_it_has_failed_on_all(fleet):
    names = ("a", "b", "c")
    for name in names:
        fleet.start(name)
    wait_until_balanced(fleet, *names)
    shards = {name: host.host.state.shards for name, host in fleet.hosts.items()}
    members = {name: each.membership.name for name, each in shards.items()}
    fail(fleet.hosts["a"])
    eventually(lambda: set(fleet.owners()) == {members["b"], members["c"]}, LIMIT, "a has nothing", pause=0.05)
    wait_until_balanced(fleet, "b", "c")
    assert [name for name in names if shards[name].membership.leaving] == ["a"]
    for name in ("b", "c"):
        fail(fleet.hosts[name])

    def leaving() -> bool:
        views = [[member.leaving for member in each.fleet.members()] for each in shards.values()]
        claims = [entry.claimant for entry in fleet.map.lines["namespace"]]
        return views == [[True] * 3] * 3 and not any(claims)

    eventually(leaving, LIMIT, "all have failed, and all know it", pause=0.05)
    owners = fleet.owner_of_each()
    assert {owner.lease for owner in owners.values()} <= set(members.values())
    renewed = {name: lease_of(fleet, member)["renewTime"] for name, member in members.items()}
    for name, member in members.items():
        eventually(
            lambda name=name, member=member: lease_of(fleet, member)["renewTime"] > renewed[name], LIMIT, pause=0.05
        )
    assert fleet.owner_of_each() == owners, "each keeps what it has"
    for host in fleet.hosts.values():
        (check, *_) = host.host.inspection.checks("healthz", "stamper")
        assert not check.passed
        assert check.detail == "failed: gave up"


def lease_of(fleet: Fleet, name: str) -> dict[str, Any]:
    return dict(fleet.client.get(API_VERSION, "Lease", name, "default")["spec"])


@pytest.mark.behaviour("shards/SH88")
@pytest.mark.parametrize("gate", [True], indirect=True)
def test_without_shards_nothing_is_added(fleet, ctrlhost_host):
    stamper = Stamper("alone")
    host = ctrlhost_host(stamper.plugin(), sandbox=fleet.sandbox)
    host.wait_for(lambda: len(set(stamper.runs)) == len(NAMESPACES) * 3)
    assert [record for record in fleet.sandbox.audit if record.resource == "leases"] == []
    assert list(fleet.client.list(API_VERSION, "Lease", "default", label_selector=FLEET)) == []
    assert [thread for thread in threading.enumerate() if thread.name.startswith("shards")] == []
    (controller,) = host.host.plugins[0].controllers
    assert controller.shards is None
    assert all(informer.scope.shard_by is None for informer in controller.informers)
    assert stamper.context.owns(ctrlhost.Request("object-0", "team-0"))


@pytest.mark.behaviour("shards/SH83")
@pytest.mark.parametrize("gate", [True], indirect=True)
def test_a_version_that_shards_by_something_else_waits_until_no_other_runs(fleet):
    old = fleet.start("a")
    eventually(lambda: len(set(fleet.stampers["a"].runs)) == len(NAMESPACES) * 3, LIMIT, pause=0.05)
    new = fleet.start("b", Stamper("b", shard_by="uid"))
    check = eventually(lambda: (now := new.host.state.shards.check()).detail.startswith("controller") and now, LIMIT)
    assert not check.passed
    for text in ("stamper/stamps is sharded by uid here", "by namespace", "scale to 0, or rename the controller"):
        assert text in check.detail
    fleet.client.create(stamped("more", "team-1"))
    eventually(lambda: ctrlhost.Request("more", "team-1") in fleet.stampers["a"].runs, LIMIT)
    assert fleet.stampers["b"].runs == []
    assert old.host.stop()
    eventually(lambda: len(set(fleet.stampers["b"].runs)) == len(NAMESPACES) * 3 + 1, LIMIT, pause=0.05)
    assert fleet.map.shard_by == {"stamper/stamps": "uid"}
    assert eventually(lambda: new.host.state.shards.check().passed, LIMIT)


@pytest.mark.behaviour("shards/SH10")
@pytest.mark.parametrize("gate", [True], indirect=True)
def test_names_from_a_shared_source_run_on_one_replica_each(fleet, ctrlhost_host):
    runs: dict[str, list[str]] = {"a": [], "b": []}

    def named(name: str) -> Any:
        def setup(plugin: ctrlhost.PluginContext) -> None:
            source = ctrlhost.Watches(
                "v1", "ConfigMap", label_selector="host", shared=True, map=lambda obj: [Request(obj.labels["host"])]
            )
            plugin.add_controller(
                "names", lambda _ctx, request: runs[name].append(request.name), source, shard_by="name"
            )

        return plugin_of(setup, "named")

    hosts = [f"host-{number}" for number in range(40)]
    for host in hosts:
        fleet.client.create(config_map(host, {}, namespace="team-0", labels={"host": host}))
    first = ctrlhost_host(named("a"), sandbox=fleet.sandbox, shards={"enabled": True}, **TIMES)
    fleet.hosts["a"] = first
    eventually(lambda: set(runs["a"]) == set(hosts), LIMIT, "what is cached when its range opens runs")
    fleet.hosts["b"] = second = ctrlhost_host(named("b"), sandbox=fleet.sandbox, shards={"enabled": True}, **TIMES)
    eventually(lambda: second.host.state.shards.check().passed, LIMIT)
    before = {name: len(done) for name, done in runs.items()}
    fleet.client.patch("v1", "ConfigMap", hosts[7], "team-0", {"metadata": {"annotations": {"new": "1"}}})
    eventually(lambda: any(hosts[7] in done[before[name] :] for name, done in runs.items()), LIMIT)
    controllers = {"a": first.host.plugins[0].controllers[0], "b": second.host.plugins[0].controllers[0]}
    (owner,) = [name for name, controller in controllers.items() if controller.owns(Request(hosts[7]))]
    (other,) = {"a", "b"} - {owner}
    eventually(lambda: controllers[other].shards.dropped > 0, LIMIT, "the other replica drops what it maps")
    assert hosts[7] not in runs[other][before[other] :]
