"""The dashboard for Grafana and the alerts for Prometheus: well-formed, complete, and tested by promtool."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from typing import Any, Literal

import msgspec
import promql_parser
import pytest
import yaml

from tests.support import promql
from tests.support.promtool import promtool

ROWS = [
    *("Now", "Overview", "Controllers", "Queues", "Informers", "Webhooks", "Shards", "API server", "Process"),
    "Plugin $plugin",
]
#: What the specification asks for, and the alerts that watch it.
ALERTS = {
    "host down": {"CtrlhostDown"},
    "plugin failed": {"CtrlhostPluginFailed"},
    "plugin degraded 15 min": {"CtrlhostPluginDegraded"},
    "no leader": {"CtrlhostNoLeader"},
    "two leaders": {"CtrlhostTwoLeaders"},
    "shards without an owner": {"CtrlhostShardsUnowned"},
    "shards that are stuck": {"CtrlhostShardsStuck"},
    "API server unreachable": {"CtrlhostApiServerUnreachable"},
    "cache stale": {"CtrlhostCacheStale"},
    "queue backlog": {"CtrlhostQueueBacklog"},
    "keys that fail": {"CtrlhostControllerFailing", "CtrlhostControllerDegraded"},
    "hung reconcile": {"CtrlhostReconcileHangs"},
    "certificate or credential": {
        "CtrlhostCertificateExpires",
        "CtrlhostTokenExpires",
        "CtrlhostExecCredentialExpires",
    },
    "no certificate of webhooks": {"CtrlhostWebhookNoCertificate"},
    "webhooks that fail": {"CtrlhostWebhookErrors"},
    "webhooks that are slow": {"CtrlhostWebhookSlow"},
    "lines dropped": {"CtrlhostLogLinesDropped"},
}


class DataSource(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["prometheus"]
    uid: Literal["${datasource}"]


class Place(msgspec.Struct, forbid_unknown_fields=True):
    h: int
    w: int
    x: int
    y: int


class Defaults(msgspec.Struct):
    unit: str


class Fields(msgspec.Struct, forbid_unknown_fields=True):
    defaults: Defaults
    overrides: list[Any]


class Target(msgspec.Struct, forbid_unknown_fields=True):
    ref_id: str = msgspec.field(name="refId")
    datasource: DataSource
    expr: str
    legend: str = msgspec.field(name="legendFormat")
    editor: Literal["code"] = msgspec.field(name="editorMode")
    range: bool
    instant: bool
    format: Literal["table", "time_series"] = "time_series"


class Row(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="row"):
    id: int
    title: str
    collapsed: bool
    place: Place = msgspec.field(name="gridPos")
    panels: list[Any]
    repeat: str | None = None


class Panel(msgspec.Struct, forbid_unknown_fields=True):
    id: int
    type: Literal["timeseries", "stat", "table", "state-timeline"]
    title: str
    description: str
    datasource: DataSource
    place: Place = msgspec.field(name="gridPos")
    fields: Fields = msgspec.field(name="fieldConfig")
    options: dict[str, Any]
    targets: list[Target]
    transformations: list[dict[str, Any]] = []


class Variable(msgspec.Struct):
    name: str
    label: str
    type: Literal["datasource", "query"]
    query: str | dict[str, str]
    datasource: DataSource | None = None


class Variables(msgspec.Struct, forbid_unknown_fields=True):
    variables: list[Variable] = msgspec.field(name="list")


class Dashboard(msgspec.Struct):
    """What Grafana requires of a dashboard, and what ours has."""

    title: str
    uid: str
    id: None
    description: str
    tags: list[str]
    editable: bool
    schema_version: int = msgspec.field(name="schemaVersion")
    version: int
    tooltip: Literal[0, 1, 2] = msgspec.field(name="graphTooltip")
    time: dict[Literal["from", "to"], str]
    templating: Variables
    annotations: dict[str, Any]
    panels: list[dict[str, Any]]


@pytest.fixture
def page() -> str:
    return (promql.ROOT / "docs" / "how-to" / "observe.md").read_text()


@pytest.fixture(scope="module")
def dashboard() -> Dashboard:
    return msgspec.json.decode(promql.DASHBOARD.read_bytes(), type=Dashboard)


@pytest.fixture(scope="module")
def rows(dashboard: Dashboard) -> list[Row]:
    return [msgspec.convert(panel, Row) for panel in dashboard.panels if panel["type"] == "row"]


@pytest.fixture(scope="module")
def panels(dashboard: Dashboard, rows: list[Row]) -> list[Panel]:
    shown = [panel for panel in dashboard.panels if panel["type"] != "row"]
    return [msgspec.convert(panel, Panel) for panel in (*shown, *(panel for row in rows for panel in row.panels))]


@pytest.mark.behaviour("operations/OP124")
def test_the_rows_are_those_that_were_asked_for(rows: list[Row]) -> None:
    assert [row.title for row in rows] == ROWS
    assert [row.repeat for row in rows] == [None] * (len(ROWS) - 1) + ["plugin"]


@pytest.mark.behaviour("operations/OP124")
def test_ids_are_unique(rows: list[Row], panels: list[Panel]) -> None:
    ids = [row.id for row in (*rows, *panels)]
    assert len(set(ids)) == len(ids)
    assert min(ids) > 0
    for panel in panels:
        refs = [target.ref_id for target in panel.targets]
        assert len(set(refs)) == len(refs) > 0
    titles = Counter(panel.title for panel in panels)
    assert [title for title, count in titles.items() if count > 1] == []


@pytest.mark.behaviour("operations/OP124")
def test_the_data_source_is_a_variable(dashboard: Dashboard) -> None:
    first, *others = dashboard.templating.variables
    assert (first.name, first.type, first.query) == ("datasource", "datasource", "prometheus")
    assert [variable.name for variable in others] == ["job", "instance", "plugin"]
    # The types of the panels admit no other.
    assert all(variable.datasource is not None for variable in others)
    (annotation,) = dashboard.annotations["list"]
    assert annotation["datasource"]["uid"] == "-- Grafana --"


@pytest.mark.behaviour("operations/OP124")
def test_each_panel_has_a_unit_a_description_and_a_place(rows: list[Row], panels: list[Panel]) -> None:
    # The panels of a closed row have places for when it is open.
    inner = {panel["id"]: row.id for row in rows for panel in row.panels}
    taken: dict[int, set[tuple[int, int]]] = {}
    for row in (*rows, *panels):
        place = row.place
        cells = {(x, y) for x in range(place.x, place.x + place.w) for y in range(place.y, place.y + place.h)}
        assert len(cells) == place.w * place.h > 0
        assert place.x + place.w <= 24
        others = taken.setdefault(inner.get(row.id, 0), set())
        assert others.isdisjoint(cells), row.title
        others |= cells
    for panel in panels:
        assert panel.fields.defaults.unit, panel.title
        assert panel.description.endswith("."), panel.title


def test_each_expression_is_limited_to_the_chosen_hosts() -> None:
    for expression in promql.of_dashboard():
        for _, matchers in promql.used_by(expression).selectors:
            # The variable `job` has no other to be limited by.
            chosen = {name for name, _, _ in matchers} >= {"job", "instance"}
            assert chosen or expression.startswith(("count by (job)", "count by (instance)")), expression


@pytest.mark.real
@pytest.mark.behaviour("operations/OP123")
def test_promtool_accepts_the_rules() -> None:
    code, said = promtool("check", "rules", promql.RULES)
    assert code == 0, said
    assert f"SUCCESS: {len(promql.rules())} rules found" in said


@pytest.mark.real
@pytest.mark.behaviour("operations/OP123")
def test_the_rules_pass_their_tests() -> None:
    code, said = promtool("test", "rules", promql.RULE_TESTS)
    assert code == 0, said


@pytest.mark.behaviour("operations/OP123")
def test_each_alert_fires_in_a_test_and_does_not_fire_in_another() -> None:
    outcomes: dict[str, set[bool]] = {}
    for test in yaml.safe_load(promql.RULE_TESTS.read_text())["tests"]:
        for case in test["alert_rule_test"]:
            outcomes.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    assert outcomes == {rule["alert"]: {True, False} for rule in promql.rules()}


@pytest.mark.behaviour("operations/OP123")
def test_there_is_an_alert_for_everything_that_was_asked_for() -> None:
    rules = {rule["alert"]: rule for rule in promql.rules()}
    assert set(rules) == set().union(*ALERTS.values())
    assert rules["CtrlhostPluginDegraded"]["for"] == "15m"
    for name, rule in rules.items():
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, name
        promql_parser.parse(rule["expr"])


def test_the_page_has_each_alert(page: str) -> None:
    assert re.findall(r"^\| `(Ctrlhost\w+)` \|", page, re.MULTILINE) == [rule["alert"] for rule in promql.rules()]


def test_the_command_of_the_page_makes_a_prometheus_rule(page: str) -> None:
    (command,) = re.findall(r"^(\(\n.*?^\)) \| kubectl apply", page, re.MULTILINE | re.DOTALL)
    stdout = subprocess.run(["bash", "-c", command], cwd=promql.ROOT, capture_output=True, text=True, check=True).stdout
    rule = yaml.safe_load(stdout)
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(promql.RULES.read_text())


@pytest.mark.behaviour("oncall/OC22")
def test_the_first_row_is_one_screen_and_the_others_are_closed(dashboard: Dashboard, rows: list[Row]) -> None:
    first, *others = rows
    assert (first.collapsed, first.panels) == (False, [])
    assert all(row.collapsed and row.panels for row in others)
    shown = [msgspec.convert(panel, Panel) for panel in dashboard.panels if panel["type"] != "row"]
    # A screen of 1080 pixels has about 24 units of height.
    assert max(panel.place.y + panel.place.h for panel in shown) <= 20
    metrics = [
        {name for target in panel.targets for name, _ in promql.used_by(variables_replaced(target.expr)).selectors}
        for panel in shown
    ]
    assert metrics == [
        {"ctrlhost_failing_keys"},
        {"ctrlhost_oldest_failure_seconds"},
        {"controller_runtime_reconcile_total"},
        {"controller_runtime_reconcile_errors_total", "controller_runtime_terminal_reconcile_errors_total"},
        {"rest_client_request_duration_seconds_bucket"},
        {"process_resident_memory_bytes", "ctrlhost_child_rss_bytes"},
    ]
    assert "sum by (controller, cause)" in shown[0].targets[0].expr


def variables_replaced(expression: str) -> str:
    for name, value in promql.VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


RUNBOOK = promql.ROOT / "docs" / "how-to" / "on-call.md"


@pytest.mark.behaviour("oncall/OC23")
def test_each_alert_leads_to_its_part_of_the_runbook() -> None:
    sections = dict(re.findall(r"^### (Ctrlhost\w+)\n(.*?)(?=^##|\Z)", RUNBOOK.read_text(), re.MULTILINE | re.DOTALL))
    for rule in promql.rules():
        path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert promql.ROOT / path == RUNBOOK
        # The anchor of a heading is its text in lower case.
        assert anchor == rule["alert"].lower()
        assert len(sections[rule["alert"]]) > 100, rule["alert"]
    assert sections.keys() == {rule["alert"] for rule in promql.rules()}


@pytest.mark.behaviour("oncall/OC23")
def test_a_failing_controller_has_one_alert_with_its_cause() -> None:
    rules = {rule["alert"]: rule for rule in promql.rules()}
    assert 'reason!="errors"' in rules["CtrlhostPluginDegraded"]["expr"]
    for severity in ("Failing", "Degraded"):
        rule = rules[f"CtrlhostController{severity}"]
        assert f'severity="{severity.lower()}"' in rule["expr"]
        assert "$labels.controller" in rule["annotations"]["summary"]
        assert 'label "cause"' in rule["annotations"]["description"]
    # What runs count is no alert: a success of another key would end it.
    assert not [rule["alert"] for rule in promql.rules() if "reconcile_errors_total" in rule["expr"]]
