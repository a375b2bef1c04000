"""The plugin in a host, on a sandbox without its own naming controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost_naming
import pytest
from ctrlhost_naming.crd import INITIAL_NAMES_ACCEPTED
from ctrlhost_naming.findings import Finding
from ctrlhost_naming.metrics import CAUSES
from ctrlhost_sandbox import Sandbox

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
from ctrlhost.testing.faults import VERBS

if TYPE_CHECKING:
    from collections.abc import Callable

from plugins.naming.tests.cluster import API, CONTROLLER, KIND, Cluster
from tests.support.cut_watches import cut_watches

behaviour = pytest.mark.behaviour
CRDS = "customresourcedefinitions"


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


@behaviour("naming/F8")
@behaviour("naming/X23")
def test_a_crd_renamed_before_it_is_established_waits_for_its_names(
    start: Callable[..., Cluster], external: Sandbox, manual_clock: Any
) -> None:
    cluster = start(external, mode="enforce", establish_delay="5s")
    cluster.settled("as/a", "bs/b")
    cluster.edit("bs", singular="a")
    cluster.host.run_until_idle()
    manual_clock.advance(6)
    cluster.host.run_until_idle()
    assert cluster.condition("as", "Established") == "True/InitialNamesAccepted"
    assert cluster.accepted("bs") == "bs/b/B/BList"
    assert cluster.names_accepted("bs") == "False/SingularConflict"
    assert cluster.condition("bs", "Established") == "False/Installing"

    cluster.edit("bs", singular="bb")
    cluster.host.run_until_idle()
    assert cluster.condition("bs", "Established") == "False/Installing"
    manual_clock.advance(6)
    cluster.host.run_until_idle()
    assert cluster.condition("bs", "Established") == "True/InitialNamesAccepted"


@behaviour("naming/X2")
@behaviour("naming/X3")
def test_names_pass_to_their_waiter_when_their_owner_is_deleted(cluster: Cluster) -> None:
    cluster.settled("foos/foo/Foo/FooList[f]", "bars/foo/Foo/FooList[f]")
    assert cluster.accepted("bars") == "bars///"
    assert cluster.names_accepted("bars") == "False/ListKindConflict"
    assert cluster.condition("bars", "Established") == "False/NotAccepted"
    cluster.delete("foos")
    cluster.host.run_until_idle()
    assert cluster.accepted("bars") == "bars/foo/Foo/FooList[f]"
    assert cluster.condition("bars", "Established") == "True/InitialNamesAccepted"


@behaviour("naming/I1")
def test_four_taken_short_names_are_reported_in_order_and_released_with_their_owner(cluster: Cluster) -> None:
    group = "mygroup.example.com"
    first = "noxus/nonenglishnoxu/WishIHadChosenNoxu/NoxuItemList[foo, bar, abc, def]"
    second = "noxus2s/othernoxu/OtherNoxu/OtherNoxuList[foo, bar, abc, def]"
    cluster.settled(first, second, group=group)
    assert cluster.names_accepted("noxus2s", group) == "False/ShortNamesConflict"
    assert cluster.accepted("noxus2s", group) == "noxus2s/othernoxu/OtherNoxu/OtherNoxuList"
    conditions = cluster.get("noxus2s", group)["status"]["conditions"]
    assert conditions[0]["message"] == (
        '["foo" is already in use, "bar" is already in use, "abc" is already in use, "def" is already in use]'
    )
    cluster.delete("noxus", group)
    cluster.host.run_until_idle()
    assert cluster.names_accepted("noxus2s", group) == "True/NoConflicts"
    assert cluster.accepted("noxus2s", group) == second


@behaviour("naming/Y8")
def test_of_many_concurrent_requests_one_gets_the_name_and_each_waiter_is_queued_once(cluster: Cluster) -> None:
    plurals = [f"{letter}s" for letter in "abcdefghijklmnopqrst"]
    cluster.create(*(f"{p}/{p[0]}/{p[0].upper()}/{p[0].upper()}List[x]" for p in plurals))
    cluster.host.run_until_idle()
    outcomes = [cluster.names_accepted(plural) for plural in plurals]
    assert sorted(outcomes) == ["False/ShortNamesConflict"] * 19 + ["True/NoConflicts"]

    before = cluster.metric("requeues_total", cause="delete")
    cluster.delete(plurals.pop(outcomes.index("True/NoConflicts")))
    cluster.host.run_until_idle()
    assert cluster.metric("requeues_total", cause="delete") == before + 19
    outcomes = [cluster.names_accepted(plural) for plural in plurals]
    assert outcomes == ["True/NoConflicts"] + ["False/ShortNamesConflict"] * 18, "the oldest gets it"


@behaviour("naming/Y6")
@pytest.mark.parametrize("error", [Conflict(), NotFound()])
def test_a_stale_write_is_no_error(cluster: Cluster, error: Exception) -> None:
    """After a conflict the key runs again at once, as `ctx.status` does it; of a CRD that is gone nothing follows."""
    cluster.settled("as/a/A/AList[x]", "bs/b/B/BList[x]")
    before = [cluster.metric("requeues_total", cause=cause) for cause in CAUSES]
    cluster.host.faults.next("patch", error, resource=CRDS)
    with cluster.host.faults.hold_watches():
        cluster.edit("as", shortNames=[], singular="aa")
    cluster.host.run_until_idle()
    assert cluster.queue.num_requeues(Request("as.g.io")) == 0
    if isinstance(error, NotFound):
        assert cluster.accepted("as") == "as/a/A/AList[x]"
        assert [cluster.metric("requeues_total", cause=cause) for cause in CAUSES] == before, "its waiter still waits"
        assert cluster.names_accepted("bs") == "False/ShortNamesConflict"
        cluster.client.patch(API, KIND, "as.g.io", None, {"metadata": {"labels": {"touched": "yes"}}})
        cluster.host.run_until_idle()
    assert cluster.accepted("as") == "as/aa/A/AList"
    assert cluster.accepted("bs") == "bs/b/B/BList[x]"


@behaviour("naming/Y9")
@behaviour("naming/Y10")
def test_of_hundreds_of_requests_one_is_accepted_while_the_watch_shows_no_write(
    start: Callable[..., Cluster], external: Sandbox, manual_clock: Any
) -> None:
    cluster = start(external, run=False, mode="enforce")
    plurals = [f"p{number}s" for number in range(300)]
    cluster.create(*(f"{plural}/{plural[:-1]}/{plural.upper()}/{plural.upper()}List[x]" for plural in plurals))

    def holders() -> int:
        return sum("x" in (crd["status"].get("acceptedNames") or {}).get("shortNames", ()) for crd in cluster.crds())

    cluster.host.host._tenure.end()
    cluster.host.host.start()
    cluster.host.wait_for(lambda: len(cluster.queue) == 300)
    with cluster.host.faults.hold_watches():
        cluster.host.host._tenure.begin(float("inf"))
        # Nothing is decided on a cache that does not show the last write.
        cluster.host.wait_for(lambda: any(cluster.queue.num_requeues(Request(f"{plural}.g.io")) for plural in plurals))
        assert holders() == 1
    manual_clock.advance(10)
    cluster.host.run_until_idle()
    assert all(crd["status"].get("conditions") for crd in cluster.crds())
    assert holders() == 1


@behaviour("naming/Y2")
@behaviour("naming/Y4")
@behaviour("naming/Y15")
def test_a_crd_whose_status_is_right_costs_no_request(cluster: Cluster) -> None:
    cluster.settled("as/a/A/AList[x]", "bs/b/B/BList[x]")
    requests = [verb for verb in VERBS if verb != "watch"]
    before = cluster.syncs("shortcut"), cluster.syncs("noop")
    for verb in requests:
        cluster.host.faults.next(verb, ServerError(), resource=CRDS)
    for plural in ("as", "bs"):
        cluster.client.patch(API, KIND, f"{plural}.g.io", None, {"metadata": {"labels": {"touched": "yes"}}})
    cluster.host.run_until_idle()
    assert (cluster.syncs("shortcut"), cluster.syncs("noop")) == (before[0] + 1, before[1] + 1)
    assert cluster.host.faults.left() == len(requests), "none of them was sent"


@behaviour("naming/Y7")
@behaviour("naming/F10")
@pytest.mark.parametrize("error", [ServerError(), Invalid(), Forbidden(), TransportError("timed out")])
def test_a_failed_write_is_retried_after_growing_delays(cluster: Cluster, manual_clock: Any, error: Exception) -> None:
    cluster.host.faults.next("patch", error, resource=CRDS, times=3)
    cluster.settled("as/a")
    request = Request("as.g.io")
    for failures, delay in ((1, 0.005), (2, 0.010), (3, 0.020)):
        assert cluster.queue.num_requeues(request) == failures
        manual_clock.advance(delay * 0.9)
        cluster.host.run_until_idle()
        assert cluster.queue.num_requeues(request) == failures, "not before its time"
        manual_clock.advance(delay * 0.1 + 1e-9)
        cluster.host.run_until_idle()
    assert cluster.names_accepted("as") == "True/NoConflicts"
    assert cluster.queue.num_requeues(request) == 0


@behaviour("naming/Y11")
def test_a_deletion_that_the_watch_missed_releases_the_names(cluster: Cluster, manual_clock: Any) -> None:
    cluster.settled("as/a/A/AList[x]", "bs/b/B/BList[x]")
    requeued = cluster.metric("requeues_total", cause="delete")
    cut_watches(cluster.host, CRDS)
    cluster.delete("as")

    def released() -> bool:
        # The reflector backs off before it lists again.
        manual_clock.advance(1)
        return cluster.accepted("bs") == "bs/b/B/BList[x]"

    cluster.host.wait_for(released)
    assert cluster.host.faults.left() == 0
    assert cluster.metric("requeues_total", cause="delete") == requeued + 1


@behaviour("naming/Y13")
def test_more_than_one_worker_is_rejected_at_start(ctrlhost_host: Any, external: Sandbox) -> None:
    with pytest.raises(ConfigError, match="must be 1, got 2"):
        ctrlhost_host(ctrlhost_naming, sandbox=external, controllers={CONTROLLER: {"workers": 2}})


@behaviour("naming/Y14")
def test_a_host_stopped_before_its_caches_synced_did_nothing(start: Callable[..., Cluster], external: Sandbox) -> None:
    cluster = start(external, run=False, mode="enforce")
    cluster.create("as/a")
    before = cluster.revision()
    cluster.host.faults.next("list", ServerError(), resource=CRDS, times=1_000)
    cluster.host.faults.next("watch", ServerError(), resource=CRDS, times=1_000)
    cluster.host.host.start()
    assert cluster.host.host.stop(10)
    assert cluster.revision() == before
    assert cluster.naming.ledger.entries() == {}


@behaviour("naming/F9")
def test_unfinished_crds_are_finished_after_a_restart(start: Callable[..., Cluster], external: Sandbox) -> None:
    first = start(external, mode="enforce", establish="off")
    first.settled("as/a/A/AList[x]")
    assert first.condition("as", "Established") == "False/Installing"
    first.host.stop()
    again = start(external, run=False, mode="enforce")
    again.create("bs/b/B/BList[x]", "cs/c")
    again.host.start()
    again.host.run_until_idle()
    assert again.condition("as", "Established") == "True/InitialNamesAccepted"
    assert again.condition("cs", "Established") == "True/InitialNamesAccepted"
    assert again.names_accepted("bs") == "False/ShortNamesConflict"


@behaviour("naming/F11")
def test_a_new_leader_reaches_the_same_state(start: Callable[..., Cluster], external: Sandbox) -> None:
    leader = start(external, mode="enforce")
    follower = start(external, run=False, mode="enforce")
    follower.host.host._tenure.end()
    follower.host.start()
    leader.settled("as/a/A/AList[x]", "bs/b/B/BList[x]")
    follower.host.run_until_idle()
    assert follower.syncs("written") == 0

    leader.host.stop()
    follower.delete("as")
    follower.host.host._tenure.begin(float("inf"))
    follower.host.wait_for(lambda: follower.names_accepted("bs") == "True/NoConflicts")


@behaviour("naming/F4")
def test_beside_a_controller_with_the_same_rules_both_stop_writing(
    start: Callable[..., Cluster], sandbox: Sandbox, manual_clock: Any
) -> None:
    cluster = start(sandbox, mode="enforce", force=True)
    operations = 0
    for step in range(12):
        cluster.create(f"p{step}s/p{step}/P{step}/P{step}List[x{step % 3}]")
        if step >= 3:
            cluster.edit(f"p{step - 1}s", shortNames=[f"x{(step + 1) % 3}", f"y{step}"])
        if step % 4 == 3:
            cluster.delete(f"p{step - 3}s")
        operations += 1 + (step >= 3) + (step % 4 == 3)

    def at_rest() -> bool:
        """Return whether neither controller would write, and the server has finished."""
        findings = [entry.kind for entry in cluster.naming.ledger.entries().values()]
        return all(kind in (None, Finding.CONFLICT) for kind in findings) and all(
            cluster.condition(plural, "Established") == f"True/{INITIAL_NAMES_ACCEPTED.reason}"
            or cluster.names_accepted(plural).startswith("False")
            for plural in (crd["spec"]["names"]["plural"] for crd in cluster.crds())
        )

    cluster.host.wait_for(lambda: at_rest() and cluster.host.run_until_idle() is None and at_rest())
    before = cluster.syncs("written"), [crd["status"] for crd in cluster.crds()]
    manual_clock.advance(60)
    cluster.host.run_until_idle()
    assert before == (cluster.syncs("written"), [crd["status"] for crd in cluster.crds()])
    assert cluster.metric("fights_total") == 0
    assert cluster.syncs("written") <= 2 * operations, "a change wastes at most one request"


def test_a_conflict_is_reported_once_as_an_event_on_the_crd(cluster: Cluster) -> None:
    cluster.settled("as/a/A/AList[x]", "bs/b/B/BList[x]")
    cluster.edit("as", categories=["all"])
    cluster.host.run_until_idle()
    reported = [event for event in cluster.host.events() if event["reason"] == "NamesNotAccepted"]
    assert [event["note"] for event in reported] == ['shortName "x" held by as.g.io']
    assert reported[0]["regarding"]["name"] == "bs.g.io"
    assert reported[0]["type"] == "Warning"


@behaviour("naming/F6")
def test_a_group_that_another_writer_keeps_changing_is_given_up(
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
    assert cluster.accepted("cs") == "cs/c/C/CList", "nothing is written in the group any longer"
    assert cluster.syncs("written") == before


def contradict(cluster: Cluster) -> None:
    """Write the status of a controller that refuses a CRD its own names."""
    status = cluster.get("bs")["status"]
    for condition in status["conditions"]:
        if condition["type"] == "NamesAccepted":
            condition |= {"status": "False", "reason": "ShortNamesConflict", "message": '"b" is already in use'}
    status["acceptedNames"]["shortNames"] = None
    cluster.client.patch(API, KIND, "bs.g.io", None, {"status": status}, subresource="status")
    cluster.host.run_until_idle()
