"""The metrics of a full host: what Prometheus' linter says, names and labels, and what adds no series."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography import x509

from tests.host.conftest import Distributions
from tests.host.full_host import OPENMETRICS, FullHost
from tests.support import promql
from tests.support.promtool import promtool
from tests.support.waiting import eventually

#: Each metric of the specification with its labels, and the values that a label may have.
METRICS: dict[str, dict[str, set[str]]] = {
    "ctrlhost_build_info": {
        "version": set(),
        "revision": set(),
        "python": set(),
        "rustc": set(),
        "core_profile": set(),
    },
    "ctrlhost_plugin_degraded": {
        "plugin": set(),
        "reason": {
            "errors",
            "forbidden",
            "waiting",
            "slow",
            "hot-loop",
            "blocked-loop",
            "backlog",
            "ownership",
            "deletion",
            "over-budget",
            "paused",
        },
    },
    "ctrlhost_plugin_cpu_seconds_total": {"plugin": set()},
    "ctrlhost_reconcile_longest_running_seconds": {"controller": set()},
    "controller_runtime_reconcile_timeouts_total": {"controller": set()},
    "ctrlhost_hot_keys": {"controller": set()},
    "ctrlhost_keys": {"controller": set()},
    "ctrlhost_failing_keys": {"controller": set(), "cause": set()},
    "ctrlhost_oldest_failure_seconds": {"controller": set()},
    "ctrlhost_controller_severity": {"controller": set(), "severity": {"failing", "degraded"}},
    "rest_client_exec_plugin_call_total": {"code": set(), "call_status": set()},
    "rest_client_exec_plugin_ttl_seconds": {},
    "rest_client_request_retries_total": {"verb": set(), "host": set(), "code": set()},
    "ctrlhost_credential_expiry_timestamp_seconds": {"source": {"token", "certificate"}},
    "ctrlhost_certificate_expiry_timestamp_seconds": {"listener": {"metrics", "webhooks"}},
    "ctrlhost_apiserver_up": {"host": set()},
    "ctrlhost_informer_staleness_seconds": {"resource": set(), "informer": set()},
    "ctrlhost_http_requests_total": {"listener": set(), "code": set()},
    "ctrlhost_http_connections_rejected_total": {
        "listener": set(),
        "reason": {"full", "header_timeout", "host", "emfile", "tls"},
    },
    "ctrlhost_metrics_collector_errors_total": {
        "plugin": set(),
        "reason": {"timeout", "error", "series", "duplicate", "invalid"},
    },
    "ctrlhost_shards_ranges": {"state": {"warming", "open", "closing"}},
    "ctrlhost_shards_moves_total": {"reason": {"join", "leave", "death", "balance"}},
    "ctrlhost_shards_handover_seconds_count": {"phase": {"warm", "open", "drain"}},
    "ctrlhost_shards_dropped_total": {"controller": set()},
    "ctrlhost_writes_refused_total": {"plugin": set(), "reason": {"term", "deadline", "restarted", "shard"}},
    "ctrlhost_log_dropped_total": {"plugin": set(), "reason": {"sampled", "rate", "full"}},
}
#: A name that is valid for a ClusterRole only.
HOSTILE = 'role-{} "quoted"\\,}} {{evil="1"}}\n# TYPE up gauge\nup 0 \N{SNOWMAN} ünïcode'
OBJECTS, ERRORS = 10_000, 100


@pytest.fixture(scope="module")
def full_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullHost]:
    folder = tmp_path_factory.mktemp("full")
    (folder / "site").mkdir()
    with FullHost(folder, Distributions(folder / "site")) as host:
        yield host


@pytest.fixture(scope="module")
def series(full_host: FullHost) -> dict[str, list[dict[str, str]]]:
    """Return the labels of the series of each name."""
    return full_host.labels()


@pytest.mark.real
@pytest.mark.behaviour("operations/OP115")
def test_promtool_finds_no_problem(full_host: FullHost) -> None:
    code, said = promtool("check", "metrics", text=full_host.exposition())
    assert (code, said) == (0, "")


@pytest.mark.behaviour("operations/OP115")
def test_both_formats_have_the_same_metrics(full_host: FullHost) -> None:
    def kinds(accept: str) -> dict[str, str]:
        # Only OpenMetrics has a type for metrics whose values are all 1.
        types = {"info": "gauge", "unknown": "untyped"}
        families = full_host.families(accept)
        assert len({family.name for family in families}) == len(families)
        named = {
            family.name + "_info" * (family.type == "info"): types.get(family.type, family.type) for family in families
        }
        return {name: types.get(kind, kind) for name, kind in named.items()}

    assert kinds(OPENMETRICS) == kinds("text/plain")
    assert full_host.exposition(OPENMETRICS).endswith("# EOF\n")


@pytest.mark.behaviour("operations/OP115")
@pytest.mark.parametrize("name", METRICS)
def test_each_metric_has_its_labels(series: dict[str, list[dict[str, str]]], name: str) -> None:
    label_sets = series[name]
    # What each process has for itself has a further label in the process of an isolated plugin.
    own = [{label: value for label, value in labels.items() if label != "child"} for labels in label_sets]
    assert {frozenset(labels) for labels in own} == {frozenset(METRICS[name])}
    for label, values in METRICS[name].items():
        assert all(labels[label] for labels in own)
        assert not values or {labels[label] for labels in own} == values


def test_the_facts_about_the_build_and_the_credentials_are_right(full_host: FullHost) -> None:
    (build,) = full_host.labels()["ctrlhost_build_info"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", build["rustc"])
    assert build["core_profile"] in ("release", "debug")
    expiry = {
        dict(labels)["source"]: value
        for (name, labels), value in full_host.values().items()
        if name == "ctrlhost_credential_expiry_timestamp_seconds" and "child" not in dict(labels)
    }
    certificate = x509.load_pem_x509_certificate(full_host.client_certificate.encode())
    assert expiry["certificate"] == certificate.not_valid_after_utc.timestamp()
    assert expiry["token"] < expiry["certificate"]


@pytest.mark.behaviour("operations/OP123")
@pytest.mark.parametrize("alert", [rule["alert"] for rule in promql.rules()])
def test_what_an_alert_names_exists(series: dict[str, list[dict[str, str]]], alert: str) -> None:
    (rule,) = [rule for rule in promql.rules() if rule["alert"] == alert]
    assert promql.missing(rule["expr"], series) == []
    known = set(promql.TARGET)
    for name, _ in promql.used_by(rule["expr"]).selectors:
        known.update(label for labels in series.get(name, ()) for label in labels)
    texts = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= known


@pytest.mark.behaviour("operations/OP123")
def test_what_the_dashboard_names_exists(series: dict[str, list[dict[str, str]]]) -> None:
    problems = {query: lacks for query in promql.of_dashboard() if (lacks := promql.missing(query, series))}
    assert problems == {}


def test_a_metric_or_a_label_that_does_not_exist_is_found() -> None:
    series = {"one_total": [{"a": "1"}], "two": [{"b": "2"}]}
    assert promql.missing("sum by (a, job) (rate(one_total[5m])) / on (b) two", series) == []
    assert promql.missing("three > 1", series) == ["no metric three"]
    assert promql.missing('one_total{a="2"} or two{b=~"1|2"}', series) == ["no series one_total[('a', 'Equal', '2')]"]
    assert promql.missing('one_total{c!="2"}', series) == ["no series one_total[('c', 'NotEqual', '2')]"]
    assert promql.missing("sum by (b) (one_total) and on (c) two", series) == ["no label c"]
    assert promql.missing("sum by (b) (one_total)", series) == ["no label b"]


@pytest.mark.behaviour("operations/OP119")
@pytest.mark.parametrize("accept", ["text/plain", OPENMETRICS])
def test_no_series_says_when_another_was_created(full_host: FullHost, accept: str) -> None:
    text = full_host.exposition(accept)
    assert "_created" not in text
    names = {sample.name for family in full_host.families(accept) for sample in family.samples}
    # The plugins' own counters, those of the isolated one included.
    assert names >= {
        *("toy_made_total", "toy_took_seconds_bucket", "toy_took_seconds_sum", "toy_size_bytes_count"),
        *("ctrlhost_naming_syncs_total", "ctrlhost_hostname_orphans_total", "ctrlhost_status_update_total"),
    }


@pytest.mark.timeout(180)
@pytest.mark.behaviour("operations/OP117")
def test_names_and_errors_of_objects_add_no_series(full_host: FullHost) -> None:
    full_host.create_role(HOSTILE.format("warm up"), error="warm up")
    full_host.create_role("well")
    for accept in ("text/plain", OPENMETRICS):
        full_host.exposition(accept)
    eventually(lambda: runs(full_host) >= 1, pause=0.1)
    before = full_host.series()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: create(full_host, number), range(OBJECTS)))
    eventually(lambda: full_host.values()[objects(full_host)] >= OBJECTS, 120, pause=0.5)
    eventually(lambda: runs(full_host) > OBJECTS - ERRORS, 120, pause=0.5)
    assert full_host.series() == before
    text = full_host.exposition()
    assert not re.search("evil|snowman|ünïcode|error text", text)


def create(host: FullHost, number: int) -> None:
    host.create_role(HOSTILE.format(number), error=f"error text {number}" if number < ERRORS else "")


def objects(host: FullHost) -> tuple[str, frozenset[tuple[str, str]]]:
    """Return the series of the number of ClusterRoles in the cache."""
    (matching,) = [
        sample
        for sample in host.series()
        if sample[0] == "ctrlhost_informer_objects" and ("resource", "clusterroles") in sample[1]
    ]
    return matching


def runs(host: FullHost) -> float:
    """Return the number of reconciles of the plugin that succeeded."""
    labels = {"controller": "toy/roles", "result": "success"}
    return host.values()["controller_runtime_reconcile_total", frozenset(labels.items())]
