"""The plugin's modes, settings and reported findings."""

from __future__ import annotations

import json
import logging
import re
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ctrlhost_naming
import pytest
from ctrlhost_naming.decision import Mode
from ctrlhost_naming.findings import Finding, Ledger
from ctrlhost_naming.metrics import NamingMetrics
from ctrlhost_sandbox import Sandbox
from prometheus_client import CollectorRegistry

from ctrlhost import (
    ConfigError,
)
from ctrlhost.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

from plugins.naming.tests.cluster import API, KIND, Cluster

behaviour = pytest.mark.behaviour
CRDS = "customresourcedefinitions"


@behaviour("naming/X25")
@pytest.mark.parametrize(("mode", "server"), [("repair", "sandbox"), ("enforce", "external")])
def test_an_outdated_condition_is_repaired(
    start: Callable[..., Cluster], request: pytest.FixtureRequest, mode: str, server: str
) -> None:
    cluster = stale(start(request.getfixturevalue(server), mode=mode))
    cluster.wait_for_server("bs")
    if mode == "repair":
        assert cluster.syncs("written") == 1


@behaviour("naming/F3")
@behaviour("naming/J7")
def test_observe_reports_an_outdated_condition_without_a_write(
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


@behaviour("findings/FP11")
def test_wiped_conditions_are_repaired(start: Callable[..., Cluster], sandbox: Sandbox, manual_clock: Any) -> None:
    wipe = (API, KIND, "as.g.io", None, {"status": {"conditions": None}})
    observer = start(sandbox, diff_grace="0s")
    observer.create("as/a/A/AList[x]")
    observer.wait_for_server("as")
    observer.client.patch(*wipe, subresource="status")
    observer.host.run_until_idle()
    # The server's own controller skips a CRD that has its names.
    assert observer.condition("as", "NamesAccepted") == observer.condition("as", "Established") == ""
    (finding,) = observer.naming.ledger.report(manual_clock.now())
    assert (finding.crd, finding.kind) == ("as.g.io", Finding.STALE_CONDITION)
    assert observer.metric("differences", kind="stale_condition") == 1

    # The clock stands still: this takes neither a resync nor a grace.
    repairer = start(sandbox, mode="repair")
    observer.wait_for_server("as")
    assert list(observer.client.list("g.io/v1", "A")) == []
    assert observer.naming.ledger.report(manual_clock.now()) == []
    observer.client.patch(*wipe, subresource="status")
    repairer.host.wait_for(lambda: repairer.syncs("written") == 2)
    observer.wait_for_server("as")
    assert list(observer.client.list("g.io/v1", "A")) == []


def stale(cluster: Cluster) -> Cluster:
    """Create a CRD that gave up a conflicting short name, as kube-apiserver leaves it."""
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
def test_observe_neither_writes_nor_reports_on_a_healthy_cluster(
    start: Callable[..., Cluster], sandbox: Sandbox, manual_clock: Any
) -> None:
    cluster = start(sandbox)
    cluster.create(*(f"p{i}s/p{i}/P{i}/P{i}List[p{i}x]" for i in range(100)))
    cluster.wait_for_server(*(f"p{i}s" for i in range(100)))
    before = cluster.revision()
    manual_clock.advance(60)
    cluster.host.run_until_idle()
    assert cluster.revision() == before
    assert cluster.syncs("written") == 0
    assert cluster.metric("crds", state="accepted") >= 100
    assert cluster.naming.ledger.report(manual_clock.now()) == []


@behaviour("naming/F2")
@behaviour("naming/F10")
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
    assert not [right for right in cluster.host.account.granted if right[1] == f"{CRDS}/status"]

    cluster.edit("bs", shortNames=["y"])
    cluster.wait_for_server("bs")
    assert cluster.metric("differences", kind="conflict") == 0
    assert "bs.g.io: all names accepted" in caplog.text


def test_groups_that_are_not_listed_are_ignored(start: Callable[..., Cluster], external: Sandbox) -> None:
    cluster = start(external, mode="enforce", groups=["mine.io"])
    cluster.settled("as/a", group="mine.io")
    cluster.settled("as/a", group="theirs.io")
    assert cluster.names_accepted("as", "mine.io") == "True/NoConflicts"
    assert cluster.names_accepted("as", "theirs.io") == ""
    assert list(cluster.naming.ledger.entries()) == ["as.mine.io"]


def test_own_names_are_accepted_if_the_settings_allow_it(start: Callable[..., Cluster], external: Sandbox) -> None:
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
def test_contradictory_settings_are_rejected(
    ctrlhost_host: Any, external: Sandbox, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ctrlhost_host(ctrlhost_naming, sandbox=external, settings={"naming": settings})


def test_only_modes_that_write_request_write_permissions() -> None:
    settings = ctrlhost_naming.NamingSettings
    rights = ctrlhost_naming.plugin.ctrlhost_permissions
    assert rights(settings()) == []
    for mode in ("repair", "enforce"):
        (status, events) = rights(settings(mode=Mode(mode)))
        assert (status.resources, status.verbs) == ((f"{CRDS}/status",), ("patch",))
        assert events.group == "events.k8s.io"


def test_the_page_shows_the_findings_as_html_and_json(
    ctrlhost_host: Any, sandbox: Sandbox, new_crd: Callable[..., dict[str, Any]]
) -> None:
    host = ctrlhost_host(
        ctrlhost_naming, sandbox=sandbox, settings={"naming": {"diff_grace": "0s"}}, listen="127.0.0.1:0"
    )
    for names in ("as/a/A/AList[x]", "bs/b/B/BList[x]"):
        host.client.create(new_crd(names))
        name = new_crd(names)["metadata"]["name"]
        host.wait_for(lambda name=name: host.client.get(API, KIND, name)["status"].get("conditions"))
    naming = host.host.plugins[0].context.state
    host.wait_for(lambda: [entry.kind for entry in naming.ledger.report(host.clock.now())] == [Finding.CONFLICT])

    def page(path: str) -> str:
        with urllib.request.urlopen(f"http://{host.host.address}/naming/{path}", timeout=10) as answer:
            return str(answer.read().decode())

    (finding,) = json.loads(page("?format=json"))
    assert (finding["crd"], finding["kind"]) == ("bs.g.io", "conflict")
    assert finding["blocked"] == [{"field": "shortName", "name": "x", "owners": ["as.g.io"]}]
    assert "<td>field: shortName<br>name: x<br>owners: as.g.io" in page("")


@behaviour("operations/OP117")
def test_reasons_that_others_write_add_no_series(start: Callable[..., Cluster], external: Sandbox) -> None:
    cluster = start(external)
    cluster.settled("as/a/A/AList", "bs/b/B/BList")
    for plural in ("as", "bs"):
        condition = {"type": "NamesAccepted", "status": "False", "reason": f'evil"{plural}', "message": ""}
        change = {"status": {"conditions": [condition]}}
        cluster.client.patch(API, KIND, f"{plural}.g.io", None, change, subresource="status")
    cluster.host.wait_for(lambda: cluster.metric("conflicts", reason="other") == 2)
    (family,) = [
        metric for metric in cluster.plugin.context.metrics.collect() if metric.name == "ctrlhost_naming_conflicts"
    ]
    assert [sample.labels for sample in family.samples] == [{"reason": "other"}]


def test_the_documentation_names_every_setting_metric_and_finding() -> None:
    text = (Path(__file__).parents[3] / "docs/plugins/naming.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(\w+)(?:\{\w+\})?`", text))
    registry = CollectorRegistry()
    NamingMetrics(registry, Ledger(0.0), ManualClock())
    metrics = {f"{metric.name}_total" if metric.type == "counter" else metric.name for metric in registry.collect()}
    assert metrics <= documented
    assert {kind.value for kind in Finding} <= documented
    assert set(ctrlhost_naming.NamingSettings.__struct_fields__) <= documented
