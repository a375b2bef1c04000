"""The plugin in a host, on a sandbox that leaves the names to it."""

from __future__ import annotations

import json
import logging
import re
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ctrlhost_naming
import pytest
from ctrlhost_naming.conditions import INITIAL_NAMES_ACCEPTED, is_true
from ctrlhost_naming.crd import Crd
from ctrlhost_naming.decision import Mode, decide
from ctrlhost_naming.differences import Kind as Finding
from ctrlhost_naming.differences import Ledger
from ctrlhost_naming.index import NameIndex
from ctrlhost_naming.metrics import NamingMetrics
from prometheus_client import CollectorRegistry

from ctrlhost import (
    ConfigError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Request,
    ServerError,
    TransportError,
)
from ctrlhost.cache import DeletedFinalStateUnknown, Object
from ctrlhost.sandbox import Sandbox
from ctrlhost.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

behaviour = pytest.mark.behaviour

API, KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
CRDS = "customresourcedefinitions"
CONTROLLER = "naming/crd_naming_condition_controller"


class Cluster:
    """A sandbox, a host with the plugin on it, and short words for what the tests do and ask."""

    def __init__(self, host: Any, new_crd: Callable[..., dict[str, Any]], spell: Callable[..., str]) -> None:
        self.host, self.client, self.new_crd, self.spell = host, host.client, new_crd, spell

    @property
    def plugin(self) -> Any:
        return self.host.host.plugins[0]

    @property
    def naming(self) -> Any:
        return self.plugin.context.state

    @property
    def queue(self) -> Any:
        return self.host.controllers[CONTROLLER].queue

    def create(self, *spelled: str, group: str = "g.io", **spec: Any) -> None:
        for one in spelled:
            self.client.create(self.new_crd(one, group, **spec))

    def settled(self, *spelled: str, group: str = "g.io") -> None:
        """Create CRDs one after the other, each settled before the next."""
        for one in spelled:
            self.create(one, group=group)
            self.host.run_until_idle()

    def edit(self, plural: str, group: str = "g.io", **names: Any) -> None:
        self.client.patch(API, KIND, f"{plural}.{group}", None, {"spec": {"names": names}})

    def delete(self, plural: str, group: str = "g.io") -> None:
        self.client.delete(API, KIND, f"{plural}.{group}")

    def get(self, plural: str, group: str = "g.io") -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(API, KIND, f"{plural}.{group}")
        return found

    def accepted(self, plural: str, group: str = "g.io") -> str:
        return self.spell(self.get(plural, group)["status"].get("acceptedNames"))

    def condition(self, plural: str, type_: str, group: str = "g.io") -> str:
        """Give a condition as `status/reason`, empty where there is none."""
        for one in self.get(plural, group)["status"].get("conditions") or ():
            if one["type"] == type_:
                return f"{one['status']}/{one['reason']}"
        return ""

    def names_accepted(self, plural: str, group: str = "g.io") -> str:
        return self.condition(plural, "NamesAccepted", group)

    def wait_for_server(self, *plurals: str, names: str = "True/NoConflicts") -> None:
        """Wait until the server's own controller has judged these, and the host has seen it; a host at rest knows
        nothing of what the server is still at."""
        wanted = [(names, "True/InitialNamesAccepted" if names.startswith("True") else "False/NotAccepted")]
        for plural in plurals:
            self.host.wait_for(
                lambda plural=plural: (self.names_accepted(plural), self.condition(plural, "Established")) in wanted
            )
        self.host.run_until_idle()

    def metric(self, name: str, **labels: str) -> float:
        value: float | None = self.plugin.context.metrics.get_sample_value(f"ctrlhost_naming_{name}", labels)
        return value or 0.0

    def syncs(self, result: str) -> float:
        return self.metric("syncs_total", result=result)

    def revision(self) -> int:
        newest: int = self.host.sandbox.revision(API, KIND)
        return newest


@pytest.fixture
def external() -> Iterator[Sandbox]:
    """A server that leaves the names of CRDs to somebody else."""
    with Sandbox(crd_conditions="external") as server:
        yield server


@pytest.fixture
def start(
    ctrlhost_host: Any, manual_clock: Any, new_crd: Callable[..., dict[str, Any]], spell: Callable[..., str]
) -> Callable[..., Cluster]:
    """Start a host with the plugin; keywords are its settings."""

    def start_cluster(sandbox: Sandbox, *, run: bool = True, **settings: Any) -> Cluster:
        host = ctrlhost_host(
            ctrlhost_naming, clock=manual_clock, sandbox=sandbox, settings={"naming": settings}, start=run
        )
        return Cluster(host, new_crd, spell)

    return start_cluster


@pytest.fixture
def cluster(start: Callable[..., Cluster], external: Sandbox) -> Cluster:
    """The plugin as the naming controller of its server."""
    return start(external, mode="enforce")


@behaviour("naming/X1")
@behaviour("naming/F8")
def test_a_fresh_crd_is_accepted_established_and_served(cluster: Cluster) -> None:
    cluster.settled("crontabs/crontab/CronTab/CronTabList[ct]", group="stable.example.com")
    assert cluster.accepted("crontabs", "stable.example.com") == "crontabs/crontab/CronTab/CronTabList[ct]"
    assert cluster.names_accepted("crontabs", "stable.example.com") == "True/NoConflicts"
    assert cluster.condition("crontabs", "Established", "stable.example.com") == "True/InitialNamesAccepted"

    tab = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "a", "namespace": "default"}}
    cluster.client.create(tab)
    assert cluster.client.get("stable.example.com/v1", "CronTab", "a", "default")["metadata"]["name"] == "a"


@behaviour("naming/X2")
@behaviour("naming/X3")
def test_names_pass_to_who_waits_for_them_when_their_owner_goes(cluster: Cluster) -> None:
    cluster.settled("foos/foo/Foo/FooList[f]", "bars/foo/Foo/FooList[f]")
    assert cluster.accepted("bars") == "bars///"
    assert cluster.names_accepted("bars") == "False/ListKindConflict"
    assert cluster.condition("bars", "Established") == "False/NotAccepted"
    cluster.delete("foos")
    cluster.host.run_until_idle()
    assert cluster.accepted("bars") == "bars/foo/Foo/FooList[f]"
    assert cluster.condition("bars", "Established") == "True/InitialNamesAccepted"


@behaviour("naming/I1")
def test_four_taken_short_names_are_told_in_order_and_free_with_their_owner(cluster: Cluster) -> None:
    group = "mygroup.example.com"
    first = "noxus/nonenglishnoxu/WishIHadChosenNoxu/NoxuItemList[foo, bar, abc, def]"
    second = "noxus2s/othernoxu/OtherNoxu/OtherNoxuList[foo, bar, abc, def]"
    cluster.settled(first, second, group=group)
    conditions = cluster.get("noxus2s", group)["status"]["conditions"]
    assert conditions[0]["message"] == (
        '["foo" is already in use, "bar" is already in use, "abc" is already in use, "def" is already in use]'
    )
    cluster.delete("noxus", group)
    cluster.host.run_until_idle()
    assert cluster.names_accepted("noxus2s", group) == "True/NoConflicts"


@behaviour("naming/Y8")
def test_of_many_that_ask_at_once_one_gets_the_name_and_each_waiter_is_queued_once(cluster: Cluster) -> None:
    plurals = [f"{letter}s" for letter in "abcdefghijklmnopqrst"]
    cluster.create(*(f"{p}/{p[0]}/{p[0].upper()}/{p[0].upper()}List[x]" for p in plurals))
    cluster.host.run_until_idle()
    outcomes = [cluster.names_accepted(plural) for plural in plurals]
    assert sorted(outcomes) == ["False/ShortNamesConflict"] * 19 + ["True/NoConflicts"]
    assert cluster.naming.index.contested() == []

    before = cluster.metric("requeues_total", cause="delete")
    cluster.delete(plurals.pop(outcomes.index("True/NoConflicts")))
    cluster.host.run_until_idle()
    assert cluster.metric("requeues_total", cause="delete") == before + 19
    outcomes = [cluster.names_accepted(plural) for plural in plurals]
    assert outcomes == ["True/NoConflicts"] + ["False/ShortNamesConflict"] * 18, "the oldest gets it"


@behaviour("naming/Y6")
@pytest.mark.parametrize(("error", "result"), [(Conflict(), "conflict409"), (NotFound(), "gone")])
def test_a_write_that_came_too_late_is_no_error_and_the_next_event_mends_it(
    cluster: Cluster, error: Exception, result: str
) -> None:
    cluster.host.faults.next("patch", error, resource=CRDS)
    cluster.settled("as/a")
    assert cluster.syncs(result) == 1
    assert cluster.names_accepted("as") == ""
    assert cluster.queue.num_requeues(Request("as.g.io")) == 0
    assert cluster.naming.index.get("as.g.io").accepted.plural == "", "nothing is believed that was not answered"

    cluster.client.patch(API, KIND, "as.g.io", None, {"metadata": {"labels": {"touched": "yes"}}})
    cluster.host.run_until_idle()
    assert cluster.names_accepted("as") == "True/NoConflicts"


@behaviour("naming/Y7")
@behaviour("naming/F10")
@pytest.mark.parametrize("error", [ServerError(), Invalid(), Forbidden(), TransportError("timed out")])
def test_a_failed_write_is_tried_again_after_growing_delays(
    cluster: Cluster, manual_clock: Any, error: Exception
) -> None:
    cluster.host.faults.next("patch", error, resource=CRDS, times=3)
    cluster.settled("as/a")
    request = Request("as.g.io")
    for failures, delay in ((1, 0.005), (2, 0.010), (3, 0.020)):
        assert cluster.syncs("error") == failures
        assert cluster.queue.num_requeues(request) == failures
        manual_clock.advance(delay * 0.9)
        cluster.host.run_until_idle()
        assert cluster.syncs("error") == failures, "not before its time"
        manual_clock.advance(delay * 0.1 + 1e-9)
        cluster.host.run_until_idle()
    assert cluster.names_accepted("as") == "True/NoConflicts"
    assert cluster.queue.num_requeues(request) == 0


@behaviour("naming/Y11")
def test_a_tombstone_frees_names_and_one_of_something_else_is_ignored(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.settled("as/a/A/AList[x]", "bs/b/B/BList[x]")
    foreign = Object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "as.g.io"}})
    cluster.naming._on_delete(DeletedFinalStateUnknown("as.g.io", foreign))
    assert cluster.naming.index.get("as.g.io") is not None
    assert "no CustomResourceDefinition" in caplog.text

    woken = cluster.metric("requeues_total", cause="delete")
    cluster.naming._on_delete(DeletedFinalStateUnknown("as.g.io", Object(cluster.get("as"))))
    assert cluster.naming.index.get("as.g.io") is None
    assert cluster.metric("requeues_total", cause="delete") == woken + 1


@behaviour("naming/Y13")
def test_more_than_one_worker_is_refused_at_start(ctrlhost_host: Any, external: Sandbox) -> None:
    with pytest.raises(ConfigError, match="one at a time"):
        ctrlhost_host(ctrlhost_naming, sandbox=external, controllers={CONTROLLER: {"workers": 2}})


@behaviour("naming/Y14")
def test_a_host_that_is_stopped_before_its_caches_are_full_has_done_nothing(
    start: Callable[..., Cluster], external: Sandbox
) -> None:
    cluster = start(external, run=False, mode="enforce")
    cluster.create("as/a")
    before = cluster.revision()
    cluster.host.faults.next("list", ServerError(), resource=CRDS, times=1_000)
    cluster.host.faults.next("watch", ServerError(), resource=CRDS, times=1_000)
    cluster.host.host.start()
    assert cluster.host.host.stop(10)
    assert cluster.revision() == before
    assert len(cluster.naming.index) == 0


@behaviour("naming/X25")
@pytest.mark.parametrize("mode", ["repair", "enforce"])
def test_a_condition_that_is_out_of_date_is_cured(start: Callable[..., Cluster], external: Sandbox, mode: str) -> None:
    cluster = stale(start(external, mode=mode))
    cluster.wait_for_server("bs")
    if mode == "repair":
        assert cluster.syncs("written") == 1


@behaviour("naming/F3")
@behaviour("naming/J7")
def test_observe_reports_a_condition_that_is_out_of_date_and_leaves_it(
    start: Callable[..., Cluster], external: Sandbox, manual_clock: Any
) -> None:
    cluster = stale(start(external))
    before = cluster.revision()
    assert cluster.metric("differences", kind="stale_condition") == 0, "not before it has lasted"
    manual_clock.advance(30)
    cluster.host.run_until_idle()
    assert cluster.metric("differences", kind="stale_condition") == 1
    assert cluster.names_accepted("bs") == "False/ShortNamesConflict"
    assert cluster.revision() == before


def stale(cluster: Cluster) -> Cluster:
    """Leave a CRD as kube-apiserver leaves one that gave up a conflicting short name."""
    cluster.create("bs/b")
    names = {"plural": "bs", "singular": "b", "kind": "B", "listKind": "BList"}
    time = "2025-01-01T00:00:00Z"
    conditions = [
        {
            "type": "NamesAccepted",
            "status": "False",
            "reason": "ShortNamesConflict",
            "message": '"x" is already in use',
            "lastTransitionTime": time,
        },
        {
            "type": "Established",
            "status": "False",
            "reason": "NotAccepted",
            "message": "not all names are accepted",
            "lastTransitionTime": time,
        },
    ]
    status = {"acceptedNames": names, "conditions": conditions}
    cluster.client.patch(API, KIND, "bs.g.io", None, {"status": status}, subresource="status")
    cluster.host.run_until_idle()
    return cluster


@behaviour("naming/F1")
def test_observe_neither_writes_nor_finds_anything_on_a_healthy_cluster(
    start: Callable[..., Cluster], sandbox: Sandbox, manual_clock: Any
) -> None:
    cluster = start(sandbox)
    cluster.create(*(f"p{i}s/p{i}/P{i}/P{i}List[p{i}x]" for i in range(100)))
    cluster.wait_for_server(*(f"p{i}s" for i in range(100)))
    before = cluster.revision()
    manual_clock.advance(60)
    cluster.host.run_until_idle()
    assert cluster.revision() == before
    assert cluster.syncs("written") == cluster.syncs("error") == 0
    assert cluster.metric("crds", state="accepted") >= 100
    assert cluster.naming.ledger.report(manual_clock.now()) == []


@behaviour("naming/F2")
def test_observe_counts_a_conflict_and_names_the_owner(
    start: Callable[..., Cluster], sandbox: Sandbox, manual_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ctrlhost.plugin.naming")
    cluster = start(sandbox)
    cluster.create("as/a/A/AList[x]")
    cluster.wait_for_server("as")
    cluster.create("bs/b/B/BList[x]")
    cluster.wait_for_server("bs", names="False/ShortNamesConflict")
    manual_clock.advance(30)
    cluster.host.run_until_idle()
    assert cluster.metric("differences", kind="conflict") == 1
    assert cluster.metric("conflicts", reason="ShortNamesConflict") == 1
    assert 'bs.g.io: conflict: shortName "x" held by as.g.io' in caplog.text
    assert cluster.syncs("written") == 0

    cluster.edit("bs", shortNames=["y"])
    cluster.wait_for_server("bs")
    assert cluster.metric("differences", kind="conflict") == 0
    assert "bs.g.io: all names are accepted now" in caplog.text


@behaviour("naming/F9")
def test_crds_left_behind_are_brought_to_an_end_after_a_restart(
    start: Callable[..., Cluster], external: Sandbox
) -> None:
    first = start(external, mode="enforce", establish="off")
    first.settled("as/a/A/AList[x]")
    first.host.stop()
    again = start(external, run=False, mode="enforce")
    again.create("bs/b/B/BList[x]", "cs/c")
    again.host.start()
    again.host.run_until_idle()
    assert again.condition("as", "Established") == "True/InitialNamesAccepted"
    assert again.condition("cs", "Established") == "True/InitialNamesAccepted"
    assert again.names_accepted("bs") == "False/ShortNamesConflict"


@behaviour("naming/F11")
def test_a_take_over_ends_in_the_same_state(start: Callable[..., Cluster], external: Sandbox) -> None:
    leader = start(external, mode="enforce")
    follower = start(external, run=False, mode="enforce")
    leading = False
    follower.host.host._leading = lambda: leading
    follower.host.start()
    leader.settled("as/a/A/AList[x]", "bs/b/B/BList[x]")
    follower.host.run_until_idle()
    assert follower.syncs("written") == 0
    assert len(follower.naming.index) == len(leader.naming.index), "it follows along"

    leader.host.stop()
    follower.delete("as")
    leading = True
    follower.host.wait_for(lambda: follower.names_accepted("bs") == "True/NoConflicts")
    assert follower.naming.index.contested() == []


@behaviour("naming/F4")
def test_beside_a_controller_with_the_same_rules_both_come_to_rest(
    start: Callable[..., Cluster], sandbox: Sandbox, manual_clock: Any
) -> None:
    cluster = start(sandbox, mode="enforce", force=True)
    for step in range(12):
        cluster.create(f"p{step}s/p{step}/P{step}/P{step}List[x{step % 3}]")
        if step >= 3:
            cluster.edit(f"p{step - 1}s", shortNames=[f"x{(step + 1) % 3}", f"y{step}"])
        if step % 4 == 3:
            cluster.delete(f"p{step - 3}s")

    def at_rest() -> bool:
        """Say whether both would leave everything as it is, and no step of the server's is left to do."""
        crds = [Crd.of(crd) for crd in cluster.client.list(API, KIND)]
        judged = [decide(crd, cluster.naming.index.used(crd), Mode.ENFORCE) for crd in crds]
        return not any(one.differs for one in judged) and all(
            crd.established == INITIAL_NAMES_ACCEPTED or not is_true(crd.names_accepted) for crd in crds
        )

    cluster.host.wait_for(lambda: at_rest() and cluster.host.run_until_idle() is None and at_rest())
    before = cluster.syncs("written"), [crd["status"] for crd in cluster.client.list(API, KIND)]
    manual_clock.advance(60)
    cluster.host.run_until_idle()
    assert before == (cluster.syncs("written"), [crd["status"] for crd in cluster.client.list(API, KIND)])
    assert cluster.metric("fights_total") == 0


def test_a_conflict_is_told_as_an_event_on_the_crd_once(cluster: Cluster) -> None:
    cluster.settled("as/a/A/AList[x]", "bs/b/B/BList[x]")
    cluster.edit("as", categories=["all"])
    cluster.host.run_until_idle()
    told = [event for event in cluster.host.events() if event["reason"] == "NamesNotAccepted"]
    assert [event["note"] for event in told] == ['shortName "x" held by as.g.io']
    assert told[0]["regarding"]["name"] == "bs.g.io"
    assert told[0]["type"] == "Warning"


def test_groups_that_are_not_listed_are_left_alone(start: Callable[..., Cluster], external: Sandbox) -> None:
    cluster = start(external, mode="enforce", groups=["mine.io"])
    cluster.settled("as/a", group="mine.io")
    cluster.settled("as/a", group="theirs.io")
    assert cluster.names_accepted("as", "mine.io") == "True/NoConflicts"
    assert cluster.names_accepted("as", "theirs.io") == ""
    assert [crd.group for crd in cluster.naming.index.crds()] == ["mine.io"]


def test_own_names_are_accepted_where_the_settings_allow_it(start: Callable[..., Cluster], external: Sandbox) -> None:
    cluster = start(external, mode="enforce", allow_own_names=True)
    cluster.settled("bs/b")
    cluster.edit("bs", shortNames=["b", "bs"])
    cluster.host.run_until_idle()
    assert cluster.accepted("bs") == "bs/b/B/BList[b, bs]"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"mode": "fix"}, "mode"),
        ({"diff_grace": "soon"}, "diff_grace"),
        ({"allow_own_names": True}, "allow_own_names"),
        ({"mode": "enforce", "allow_own_names": True, "force": True}, "fight"),
        ({"speed": 3}, "speed"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    ctrlhost_host: Any, external: Sandbox, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ctrlhost_host(ctrlhost_naming, sandbox=external, settings={"naming": settings})


def test_rights_to_write_are_asked_for_only_where_something_is_written() -> None:
    settings = ctrlhost_naming.NamingSettings
    assert list(ctrlhost_naming.ctrlhost_permissions(settings())) == []
    for mode in ("repair", "enforce"):
        (status, events) = ctrlhost_naming.ctrlhost_permissions(settings(mode=mode))
        assert (status.resources, status.verbs) == ((f"{CRDS}/status",), ("patch",))
        assert events.group == "events.k8s.io"


def test_the_page_shows_the_findings_to_people_and_as_json(
    ctrlhost_host: Any, sandbox: Sandbox, new_crd: Callable[..., dict[str, Any]]
) -> None:
    host = ctrlhost_host(
        ctrlhost_naming, sandbox=sandbox, settings={"naming": {"diff_grace": "0s"}}, listen="127.0.0.1:0"
    )
    for one in ("as/a/A/AList[x]", "bs/b/B/BList[x]"):
        host.client.create(new_crd(one))
        name = new_crd(one)["metadata"]["name"]
        host.wait_for(lambda name=name: host.client.get(API, KIND, name)["status"].get("conditions"))
    naming = host.host.plugins[0].context.state
    host.wait_for(lambda: [one.kind for one in naming.ledger.report(host.clock.now())] == [Finding.CONFLICT])

    def page(path: str) -> str:
        with urllib.request.urlopen(f"http://{host.host.address}/naming/{path}", timeout=10) as answer:
            return str(answer.read().decode())

    (finding,) = json.loads(page("findings.json"))
    assert (finding["crd"], finding["kind"]) == ("bs.g.io", "conflict")
    assert finding["blocked"] == [{"field": "shortName", "name": "x", "owners": ["as.g.io"]}]
    assert "shortName &quot;x&quot; held by as.g.io" in page("")


def test_the_documentation_names_every_setting_metric_and_finding() -> None:
    text = (Path(__file__).parents[3] / "docs/plugins/naming.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(\w+)(?:\{\w+\})?`", text))
    registry = CollectorRegistry()
    index = NameIndex()
    NamingMetrics(registry, index, Ledger(index, 0.0), ManualClock())
    metrics = {f"{metric.name}_total" if metric.type == "counter" else metric.name for metric in registry.collect()}
    assert metrics <= told
    assert {kind.value for kind in Finding} <= told
    assert set(ctrlhost_naming.NamingSettings.__struct_fields__) <= told


@behaviour("naming/F6")
def test_a_group_that_somebody_else_keeps_changing_is_left_to_them(
    start: Callable[..., Cluster], external: Sandbox, manual_clock: Any
) -> None:
    cluster = start(external, mode="enforce", allow_own_names=True)
    cluster.settled("bs/b", "cs/c")
    cluster.edit("bs", shortNames=["b"])
    cluster.host.run_until_idle()
    assert cluster.accepted("bs") == "bs/b/B/BList[b]"

    for rounds in range(1, 5):
        assert cluster.names_accepted("bs") == "True/NoConflicts"
        contradict(cluster)
        assert cluster.metric("fights_total") == (rounds == 4)
        manual_clock.advance(10)
    assert cluster.names_accepted("bs") == "False/ShortNamesConflict"
    assert [event["reason"] for event in cluster.host.events()].count("NamingFight") == 1

    before = cluster.syncs("written")
    cluster.edit("cs", singular="other")
    cluster.host.run_until_idle()
    assert cluster.accepted("cs") == "cs/c/C/CList", "nothing is written in the group any more"
    assert cluster.syncs("written") == before


def contradict(cluster: Cluster) -> None:
    """Write what a controller would that refuses a CRD its own names."""
    status = cluster.get("bs")["status"]
    for condition in status["conditions"]:
        if condition["type"] == "NamesAccepted":
            condition |= {"status": "False", "reason": "ShortNamesConflict", "message": '"b" is already in use'}
    status["acceptedNames"]["shortNames"] = None
    cluster.client.patch(API, KIND, "bs.g.io", None, {"status": status}, subresource="status")
    cluster.host.run_until_idle()
