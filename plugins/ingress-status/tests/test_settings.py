"""Settings and their validation, the rights and the page."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import ctrlhost_ingress_status
import pytest
from ctrlhost_ingress_status import IngressStatusSettings
from starlette.testclient import TestClient

import ctrlhost
from ctrlhost.config.load import Configuration

if TYPE_CHECKING:
    from pathlib import Path


def effective(tmp_path: Path, **names: str) -> IngressStatusSettings:
    """Read the settings like a host, from a file and from `--set`."""
    file = tmp_path / "ctrlhost.toml"
    lines = [f'{key} = "{names[f"file_{key}"]}"' for key in ("name", "namespace") if f"file_{key}" in names]
    text = "\n".join(f"envoy-service-{line}" for line in lines)
    file.write_text(f"[plugins.ingress-status]\n{text}\n")
    flags = [
        f"ingress-status.envoy-service-{key}={names[f'flag_{key}']}"
        for key in ("name", "namespace")
        if f"flag_{key}" in names
    ]
    settings: IngressStatusSettings = Configuration.gather(file, {}, flags).plugin(
        "ingress-status", IngressStatusSettings
    )
    return settings


@pytest.mark.behaviour("ingress-status/R25")
@pytest.mark.parametrize(("flag", "file", "variable"), list(itertools.product([True, False], repeat=3)))
def test_a_flag_comes_before_the_file_and_that_before_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: bool, file: bool, variable: bool
) -> None:
    monkeypatch.delenv("CONTOUR_NAMESPACE", raising=False)
    if variable:
        monkeypatch.setenv("CONTOUR_NAMESPACE", "from-variable")
    names = {}
    if flag:
        names |= {"flag_name": "flag", "flag_namespace": "flag-ns"}
    if file:
        names |= {"file_name": "file", "file_namespace": "file-ns"}
    (ref,) = effective(tmp_path, **names).services()
    assert ref.name == ("flag" if flag else "file" if file else "envoy")
    default = "from-variable" if variable else "projectcontour"
    assert ref.namespace == ("flag-ns" if flag else "file-ns" if file else default)


def test_an_empty_text_counts_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTOUR_NAMESPACE", raising=False)
    settings = effective(tmp_path, file_name="", file_namespace="")
    assert list(map(str, settings.services())) == ["projectcontour/envoy"]
    assert not IngressStatusSettings(ingress_status_address="").is_static


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"ingress-status-address": ","}, "names no address"),
        ({"ingress-status-address": " "}, "names no address"),
        ({"ingress-status-address": "010.0.0.1, fe80::1%eth0"}, "fe80::1%eth0"),
        ({"ingress-class-name": "a,,b"}, "empty item"),
        ({"ingress-class-name": ["a", " "]}, "empty item"),
        ({"class-mode": "controller"}, "require each other"),
        ({"ingress-class-controller": "example.com/c"}, "require each other"),
        ({"match-unclassed-if-default": True}, "requires `class-mode: controller`"),
        ({"class-mode": "both"}, "class-mode"),
        ({"envoy-service-namespace": " "}, "must be `namespace/name`"),
        ({"envoy-services": ["envoy"]}, "must be `namespace/name`"),
        ({"status-qps": -1.0}, "status-qps"),
        ({"status-qps": float("nan")}, "status-qps"),
        ({"status-qps": float("inf")}, "status-qps"),
        ({"status-burst": 0}, "status-burst"),
        ({"status-workers": 0}, "status-workers"),
        ({"address-holdoff": "9s"}, "address-holdoff-max"),
        ({"vendor-annotation": " "}, "vendor-annotation"),
        ({"write-method": "put"}, "write-method"),
        ({"load-balancer-status": "address:a"}, "unknown setting"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(settings: dict[str, Any], told: str) -> None:
    tree = {"host": {}, "plugins": {"ingress-status": settings}, "controllers": {}}
    with pytest.raises(ctrlhost.ConfigError) as caught:
        Configuration(tree, "").plugin("ingress-status", IngressStatusSettings)
    assert told in str(caught.value)


@pytest.mark.parametrize("classes", ["a, b", ["a", " b"]])
def test_classes_are_a_list_or_a_text_with_commas(classes: Any) -> None:
    tree = {"host": {}, "plugins": {"ingress-status": {"ingress-class-name": classes}}, "controllers": {}}
    settings = Configuration(tree, "").plugin("ingress-status", IngressStatusSettings)
    assert settings.class_rules().ours() == {"a", "b"}


def test_no_more_rights_are_asked_for_than_are_used() -> None:
    def rights_of(**settings: Any) -> list[tuple[Any, ...]]:
        rules = ctrlhost_ingress_status.rights(IngressStatusSettings(**settings))
        return [(rule.group, rule.resources, rule.verbs, rule.namespace) for rule in rules]

    status, ingresses = ("ingresses/status",), ("ingresses",)
    assert rights_of() == [("networking.k8s.io", status, ("patch",), None)]
    assert rights_of(write_method="update", watch_namespaces=("a", "b")) == [
        ("networking.k8s.io", status, ("update",), "a"),
        ("networking.k8s.io", ingresses, ("get",), "a"),
        ("networking.k8s.io", status, ("update",), "b"),
        ("networking.k8s.io", ingresses, ("get",), "b"),
    ]


def page(replica: Any, query: str = "") -> tuple[str, str]:
    answer = TestClient(replica.plugin.host.pages["/"]).get(f"/{query}")
    return answer.headers["content-type"], answer.text


def test_the_page_shows_what_is_published_and_how_far_it_has_come(cluster: Any) -> None:
    cluster.service([{"ip": "203.0.113.7"}])
    for name in ("one", "two"):
        cluster.ingress(name)
    cluster.ingress("other", field="nginx")
    replica = cluster.start()
    kind, body = page(replica, "?format=json")
    report = json.loads(body)
    assert kind == "application/json"
    assert report["addresses"] == [{"ip": "203.0.113.7"}]
    assert report["objects"] == {"current": 2, "pending": 0, "foreign_class": 1}
    assert report["leading"] is True
    kind, body = page(replica)
    assert kind.startswith("text/html")
    assert "203.0.113.7" in body
    assert replica.metric("ctrlhost_ingress_status_objects", state="current") == 2
    assert replica.metric("ctrlhost_ingress_status_objects", state="foreign_class") == 1
    assert replica.metric("ctrlhost_ingress_status_addresses") == 1


def test_before_an_address_is_known_the_metric_says_so(cluster: Any) -> None:
    replica = cluster.start(leads=False, settle=False)
    replica.plugin.desired.known = None
    assert replica.metric("ctrlhost_ingress_status_addresses") == -1
