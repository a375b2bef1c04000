"""The plugin's page and examples match the code."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml
from ctrlhost_hostname import plugin
from ctrlhost_hostname.metrics import GAUGES, HostnameMetrics
from ctrlhost_hostname.settings import HostnameSettings
from prometheus_client import CollectorRegistry

from ctrlhost.config.load import Configuration
from ctrlhost.manifests.loading import load_plugins
from ctrlhost.manifests.rbac import collect_permissions

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/plugins/hostname.md").read_text(encoding="utf-8")
TABLES = ("host", "controllers", "supervision", "informers")
EXAMPLES = sorted((ROOT / "plugins/hostname/examples").glob("*.yaml"))


def section(title):
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_page_names_every_setting_and_no_other():
    first_cells = re.findall(r"^\| (`[^|]*) \|", section("Settings"), re.MULTILINE)
    named = {name for cell in first_cells for name in re.findall(r"`([^`]*)`", cell)}
    assert named == set(msgspec.to_builtins(HostnameSettings()))


def test_the_page_names_every_metric_and_no_other():
    registry = CollectorRegistry()
    HostnameMetrics(registry, **dict.fromkeys(GAUGES, lambda: 0.0))
    names = {name.removesuffix("_total") for family in registry.collect() for name in [family.name]}
    named = {name.removesuffix("_total") for name in re.findall(r"^\| `([^`]*)`", section("Metrics"), re.MULTILINE)}
    assert named == names


@pytest.mark.parametrize("mode", ["ingress", "gateway-api"])
def test_the_page_names_every_right(mode):
    tables = {"plugins": {"hostname": {"ingress-mode": mode}}}
    configuration = Configuration({**{table: {} for table in TABLES}, **tables}, "")
    permissions = list(collect_permissions(load_plugins((plugin,), configuration), configuration.host))
    assert len(permissions) > 5
    for permission in permissions:
        if permission.group == "apiextensions.k8s.io":
            continue
        (line,) = [line for line in section("Rights").splitlines() if f"`{permission.resources[0]}`" in line]
        assert f"`{permission.group}`" in line
        assert set(permission.verbs) <= set(re.findall(r"[a-z]+", line.rpartition("| ")[2] or line.split("|")[-2]))


def test_the_examples_do_what_their_names_say(cluster, objects):
    cluster.start()
    seen = {}
    for file in EXAMPLES:
        for thing in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            apply(cluster, thing, delete=file.stem.endswith("-delete"))
        cluster.idle()
        seen[file.stem[3:]] = cluster.routes()
    shop, api, blog = "shop.example.com", "api.example.com", "blog.example.com"
    late = objects.lease(7003).namespace
    moved = {(objects.second.namespace, shop), (objects.third.namespace, api)}
    assert seen == {
        "leases": set(),
        "connect": {(objects.first.namespace, shop), (objects.third.namespace, api)},
        "swap": moved,
        "conflict": moved,
        "waiting": moved,
        "arrived": {*moved, (late, blog)},
        "release-delete": {(objects.second.namespace, shop), (late, blog)},
    }
    conflicts = [event for event in cluster.host.events("lease") if event["reason"] == "HostnameConflict"]
    assert [event["regarding"]["name"] for event in conflicts] == ["shop-of-somebody-else"]


def apply(cluster, thing, *, delete):
    metadata = thing["metadata"]
    if thing["kind"] == "Namespace":
        cluster.namespace(metadata["name"])
    elif delete:
        cluster.client.delete(thing["apiVersion"], thing["kind"], metadata["name"], metadata["namespace"])
    else:
        cluster.client.apply(thing, field_manager="kubectl")
