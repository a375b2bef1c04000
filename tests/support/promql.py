"""The expressions of the dashboard and of the alerts: what they select, and the labels that they name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import promql_parser
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "docs" / "grafana" / "ctrlhost.json"
RULES = ROOT / "docs" / "prometheus" / "ctrlhost.rules.yaml"
RULE_TESTS = RULES.with_name("ctrlhost.rules.test.yaml")

#: Labels that Prometheus adds to each series of a target.
TARGET = {"job": "ctrlhost", "instance": "a", "namespace": "ctrlhost"}
#: What Grafana puts into expressions; the plugin is one that has all metrics.
VARIABLES = {"$__rate_interval": "5m", "$job": "ctrlhost", "$instance": ".*", "$plugin": "toy"}


def rules() -> list[dict[str, Any]]:
    """Return the alerting rules."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    document: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return document


def of_dashboard() -> list[str]:
    """Return the expressions of all panels and variables, with values for Grafana's variables."""
    board = dashboard()
    panels = [panel for outer in board["panels"] for panel in (outer, *outer.get("panels", ()))]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
            expressions.append(f"count by ({label}) ({selector})")
    for name, value in VARIABLES.items():
        expressions = [expression.replace(name, value) for expression in expressions]
    return expressions


@dataclass(frozen=True, slots=True)
class Used:
    """What an expression needs: its selectors, and the labels that it groups or joins by."""

    selectors: list[tuple[str, list[tuple[str, str, str]]]]
    labels: set[str]


def used_by(expression: str) -> Used:
    """Return what an expression needs; ValueError if it is malformed."""
    selectors, labels = [], set[str]()
    for node in _nodes(promql_parser.parse(expression)):
        if isinstance(node, promql_parser.VectorSelector):
            matchers = [(matcher.name, _operator(matcher), matcher.value) for matcher in node.matchers.matchers]
            selectors.append((str(node.name), matchers))
        elif isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            labels.update(node.modifier.labels)
        elif isinstance(node, promql_parser.BinaryExpr) and node.modifier is not None:
            labels.update(node.modifier.matching.labels if node.modifier.matching is not None else ())
    return Used(selectors, labels)


def missing(expression: str, series: Mapping[str, Sequence[Mapping[str, str]]]) -> list[str]:
    """Return what of an expression does not exist in these series, whose labels are given by name."""
    used = used_by(expression)
    problems, known = [], set(TARGET)
    for name, matchers in used.selectors:
        if name == "up":
            # Prometheus' own.
            continue
        candidates = [TARGET | dict(labels) for labels in series.get(name, ())]
        known.update(label for labels in candidates for label in labels)
        if not candidates:
            problems.append(f"no metric {name}")
        elif not any(all(_matches(labels, matcher) for matcher in matchers) for labels in candidates):
            problems.append(f"no series {name}{matchers}")
    return problems + [f"no label {label}" for label in sorted(used.labels - known)]


def _nodes(node: Any) -> Iterator[Any]:
    nodes: list[Any] = []
    promql_parser.walk(node, pre_visit=lambda child: nodes.append(child))
    return iter(nodes)


def _operator(matcher: Any) -> str:
    return str(matcher.op).rpartition(".")[2]


def _matches(labels: Mapping[str, str], matcher: tuple[str, str, str]) -> bool:
    """Return whether series may have what a matcher asks for; one that excludes a value needs the label only."""
    name, operator, value = matcher
    if name not in labels:
        return False
    return {"Equal": labels[name] == value, "Re": re.fullmatch(value, labels[name]) is not None}.get(operator, True)
