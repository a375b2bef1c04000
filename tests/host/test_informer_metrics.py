"""The metrics of informers, their memory and the transport: on `/metrics`, and in the reference."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ctrlhost import For, PluginContext, Watches
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import controller

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
INFORMER = {"name", "group", "version", "resource"}
#: The labels of each metric.
METRICS = {
    "ctrlhost_informer_memory_bytes": INFORMER | {"part"},
    "ctrlhost_informer_encoding": INFORMER | {"encoding"},
    "ctrlhost_informer_unknown_fields_total": INFORMER,
    "ctrlhost_informer_received_bytes_total": INFORMER | {"encoding"},
    "ctrlhost_memory_budget_bytes": set(),
    "ctrlhost_informer_over_budget": INFORMER,
    "ctrlhost_informer_plain_bytes": INFORMER,
    "ctrlhost_informer_compressed_objects": INFORMER,
    "ctrlhost_informer_dictionaries_learnt_total": INFORMER,
    "ctrlhost_informer_decompressions_total": INFORMER,
    "ctrlhost_informer_held_back_seconds_total": INFORMER,
    "ctrlhost_transport_connections": {"state"},
    "ctrlhost_transport_handshakes_total": {"resumed"},
    "ctrlhost_transport_busy_seconds_total": {"thread"},
}
#: The values of labels that a metric has in any case.
VALUES = {
    ("ctrlhost_informer_memory_bytes", "part"): {"header", "body", "index", "table", "dictionary"},
    ("ctrlhost_informer_encoding", "encoding"): {"json", "protobuf"},
    ("ctrlhost_informer_received_bytes_total", "encoding"): {"json", "protobuf"},
    ("ctrlhost_transport_connections", "state"): {"connecting", "idle", "call", "stream"},
    ("ctrlhost_transport_busy_seconds_total", "thread"): {"io", "decode"},
}


@pytest.mark.behaviour("scale/SC114")
def test_the_metrics_of_two_informers_are_those_of_the_reference(ctrlhost_host) -> None:
    host = ctrlhost_host(
        controller(lambda ctx, request: None, For("v1", "ConfigMap"), Watches("v1", "Secret")),
        listen="127.0.0.1:0",
        informers={"memory_budget": 1 << 30},
    )
    host.client.create(config_map("one"))
    host.run_until_idle()
    with urllib.request.urlopen(f"http://{host.host.address}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
    samples = [sample for family in families for sample in family.samples]
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| ((?:`\w+` ?)*)\| ", REFERENCE.read_text(), re.MULTILINE)
    documented = {name: set(re.findall(r"\w+", labels)) for name, labels in rows}
    for name, labels in METRICS.items():
        sets = [sample.labels for sample in samples if sample.name == name]
        assert documented[name] == labels
        assert {frozenset(entry) for entry in sets} == {frozenset(labels)}, name
        if "resource" in labels:
            assert {entry["resource"] for entry in sets} >= {"configmaps", "secrets"}, name
    for (name, label), values in VALUES.items():
        assert {sample.labels[label] for sample in samples if sample.name == name} == values


@pytest.mark.behaviour("oncall/OC24")
def test_what_has_no_value_is_left_out(ctrlhost_host) -> None:
    def maps(_obj: Any) -> list[Any]:
        return []

    def setup(plugin: PluginContext) -> None:
        selector = "none=such"
        watched = Watches("v1", "Service", map=maps, label_selector=selector)
        plugin.add_controller("busy", lambda ctx, request: None, For("v1", "ConfigMap"))
        plugin.add_controller("idle", lambda ctx, request: None, For("v1", "Secret", label_selector=selector), watched)

    host = ctrlhost_host(plugin_of(setup), listen="127.0.0.1:0")
    host.client.create(config_map("one"))
    host.run_until_idle()
    with urllib.request.urlopen(f"http://{host.host.address}/metrics") as answer:
        text = answer.read().decode()
    families = list(text_string_to_metric_families(text))
    assert [family.name for family in families if not family.samples] == []
    ran = {
        family.name: {sample.labels["controller"].rpartition("/")[2] for sample in family.samples}
        for family in families
        if family.type == "histogram" and family.name.startswith(("workqueue_", "controller_runtime_"))
    }
    assert len(ran) == 3
    assert set(map(frozenset, ran.values())) == {frozenset({"busy"})}
    assert 'use="map"' not in text
