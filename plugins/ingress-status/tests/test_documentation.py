"""The plugin's documentation agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from ctrlhost_ingress_status import rights
from ctrlhost_ingress_status.ingress import Desired
from ctrlhost_ingress_status.metrics import REASONS, StatusMetrics
from ctrlhost_ingress_status.settings import IngressStatusSettings
from prometheus_client import CollectorRegistry

PLUGIN = Path(__file__).parents[1]
PAGE = (PLUGIN.parents[1] / "docs/plugins/ingress-status.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(title: str) -> set[str]:
    cells = re.findall(r"^\| (`[^|]*) \|", section(title), re.MULTILINE)
    return {name.partition("{")[0] for cell in cells for name in re.findall(r"`([^`]*)`", cell)}


def test_the_page_names_every_setting_and_no_other() -> None:
    assert first_cells("Settings") == {field.encode_name for field in msgspec.structs.fields(IngressStatusSettings)}


def test_the_page_names_every_metric_and_no_other() -> None:
    registry = CollectorRegistry()
    StatusMetrics(registry, "Ingress", Desired(frozenset()))
    families = {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}
    assert first_cells("Metrics") == families
    assert set(re.findall(r"`([a-z]+)`", section("Metrics").partition("failures: ")[2].partition("|")[0])) == set(
        REASONS
    )


@pytest.mark.parametrize("method", ["patch", "update"])
def test_the_page_names_the_right_to_write(method: str) -> None:
    settings = msgspec.convert({"write-method": method}, IngressStatusSettings)
    for permission in rights(settings):
        assert f"`{permission.resources[0]}`" in section("Rights")
        assert list(permission.verbs) == ([method] if permission.resources[0] == "ingresses/status" else ["get"])
        assert set(permission.verbs) <= set(section("Rights").replace(",", " ").replace(")", " ").split())


def test_the_page_names_every_event_and_no_other() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (PLUGIN / "src").rglob("*.py"))
    told = set(re.findall(r'events\.(?:normal|warning)\(\w+, "(\w+)"', source))
    assert told == set(re.findall(r"(?:Warning|Normal) `(\w+)`", section("Events")))
