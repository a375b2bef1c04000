"""The pages of the plugins: limits, failure modes, alerts, and differences from the original system."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

DOCS = Path(__file__).parents[2] / "docs"
PLUGINS = ("bitcoin", "hostname", "ingress-status", "naming")
#: A metric in an expression: neither a function, a label nor a text.
METRIC = re.compile(r"\b(?:ctrlhost|provider|controller_runtime|workqueue|rest_client|leader_election)_\w+")
SUFFIX = re.compile(r"_(?:bucket|count|sum)$")


def sections(page: str) -> dict[str, str]:
    text = (DOCS / "plugins" / f"{page}.md").read_text(encoding="utf-8")
    return {title: body for title, _, body in (section.partition("\n") for section in text.split("\n## ")[1:])}


def rules(page: str) -> list[dict[str, Any]]:
    (block,) = re.findall(r"```yaml\n(.*?)```", sections(page)["Alerts"], re.DOTALL)
    entries: list[dict[str, Any]] = yaml.safe_load(block)
    return entries


@pytest.mark.behaviour("findings/FP13")
@pytest.mark.parametrize("page", PLUGINS)
def test_a_page_states_limits_failures_alerts_and_differences(page: str) -> None:
    parts = sections(page)
    for title in ("Limits", "Failure modes", "Alerts"):
        assert len(parts[title]) > 200, title
    (difference,) = [body for title, body in parts.items() if title.startswith("Differences from ")]
    assert len(difference) > 200


@pytest.mark.parametrize("page", PLUGINS)
def test_the_rules_of_a_page_are_complete_and_name_existing_metrics(page: str) -> None:
    reference = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`(\w+)(?:\{[\w,]+\})?`", reference + sections(page)["Metrics"]))
    alerts = rules(page)
    assert len({rule["alert"] for rule in alerts}) == len(alerts) >= 3
    for rule in alerts:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}, rule
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary"}
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        metrics = {SUFFIX.sub("", name) for name in METRIC.findall(rule["expr"])}
        assert metrics
        assert metrics <= known, metrics - known
        for opening, closing in ("()", "[]", "{}"):
            assert rule["expr"].count(opening) == rule["expr"].count(closing)
