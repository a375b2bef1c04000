"""Quotas in the sandbox: what is created is charged at once, what goes is free again."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from sandbox.tests.conftest import Crd
from tests.support.http_client import Api
from tests.support.objects import config_map, container, service
from tests.support.waiting import eventually, eventually_equal

pytestmark = pytest.mark.behaviour("findings/FS30")


class Quota:
    """A quota in a namespace."""

    def __init__(self, api: Api, namespace: str, **spec: Any) -> None:
        self.api = api
        self.base = f"/api/v1/namespaces/{namespace}"
        self.path = f"{self.base}/resourcequotas/q"
        api.post(f"{self.base}/resourcequotas", {"metadata": {"name": "q"}, "spec": spec}).expect(201)
        eventually(lambda: self.status().get("hard") == spec["hard"])

    def status(self) -> dict[str, Any]:
        return self.api.get(self.path).json().get("status") or {}

    def uses(self, **used: str) -> None:
        """Wait until the quota shows this use."""
        wanted = {name.replace("__", "/").replace("_", "."): value for name, value in used.items()}
        eventually_equal(lambda: self.status()["used"], wanted)


def pod(name: str, cpu: str = "100m") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [container(resources={"requests": {"cpu": cpu}})]}}


def test_of_sixteen_writers_ten_get_the_ten_places(server: Sandbox, api: Api, ns: str) -> None:
    quota = Quota(api, ns, hard={"count/configmaps": "10"})
    present = int(quota.status()["used"]["count/configmaps"])
    start = threading.Barrier(16)

    def write(index: int) -> list[int]:
        with Api(server.url, server.ca, server.token) as own:
            start.wait()
            return [
                own.post(f"{quota.base}/configmaps", config_map(f"c-{index}-{attempt}")).status for attempt in range(3)
            ]

    with ThreadPoolExecutor(16) as pool:
        codes = Counter(code for answer in pool.map(write, range(16)) for code in answer)
    assert codes == {201: 10 - present, 403: 48 - (10 - present)}
    assert len(api.get(f"{quota.base}/configmaps").json()["items"]) == 10
    quota.uses(count__configmaps="10")


def test_a_deletion_frees_its_place(api: Api, ns: str) -> None:
    quota = Quota(api, ns, hard={"pods": "1", "requests.cpu": "1"})
    api.post(f"{quota.base}/pods", pod("a")).expect(201)
    quota.uses(pods="1", requests_cpu="100m")
    text = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    assert text in api.post(f"{quota.base}/pods", pod("b")).fails(403, "Forbidden")["message"]
    api.delete(f"{quota.base}/pods/a", gracePeriodSeconds=0).expect(200)
    quota.uses(pods="0", requests_cpu="0")
    api.post(f"{quota.base}/pods", pod("b")).expect(201)


def test_a_pod_that_ended_only_counts_as_an_object(api: Api, ns: str) -> None:
    quota = Quota(api, ns, hard={"pods": "1", "count/pods": "2", "requests.cpu": "1"})
    stored = api.post(f"{quota.base}/pods", pod("a", "500m")).expect(201)
    quota.uses(pods="1", count__pods="1", requests_cpu="500m")
    stored["status"] = {"phase": "Succeeded"}
    del stored["metadata"]["resourceVersion"]
    api.put(f"{quota.base}/pods/a/status", stored).expect(200)
    quota.uses(pods="0", count__pods="1", requests_cpu="0")


def test_a_dry_run_costs_nothing(api: Api, ns: str) -> None:
    quota = Quota(api, ns, hard={"secrets": "1"})
    for _ in range(2):
        api.post(f"{quota.base}/secrets", {"metadata": {"name": "s"}}, dryRun="All").expect(201)
    api.post(f"{quota.base}/secrets", {"metadata": {"name": "s"}}).expect(201)
    api.post(f"{quota.base}/secrets", {"metadata": {"name": "t"}}, dryRun="All").fails(403, "Forbidden")


def test_a_refused_object_costs_nothing(api: Api, ns: str) -> None:
    quota = Quota(api, ns, hard={"secrets": "2"})
    api.post(f"{quota.base}/secrets", {"metadata": {"name": "s"}}).expect(201)
    api.post(f"{quota.base}/secrets", {"metadata": {"name": "s"}}).fails(409, "AlreadyExists")
    api.post(f"{quota.base}/secrets", {"metadata": {"name": "S S"}}).fails(422, "Invalid")
    quota.uses(secrets="1")


def test_an_update_is_charged_the_difference(api: Api, ns: str) -> None:
    quota = Quota(api, ns, hard={"services": "1", "services.nodeports": "1"})
    stored = api.post(f"{quota.base}/services", service("s")).expect(201)
    stored["spec"]["type"] = "NodePort"
    stored = api.put(f"{quota.base}/services/s", stored).expect(200)
    quota.uses(services="1", services_nodeports="1")
    stored["spec"]["ports"].append({"port": 81, "name": "b"})
    stored["spec"]["ports"][0]["name"] = "a"
    failure = api.put(f"{quota.base}/services/s", stored).fails(403, "Forbidden")
    assert "requested: services.nodeports=1, used: services.nodeports=1" in failure["message"]


def test_custom_objects_count(api: Api, ns: str, widgets: Crd) -> None:
    name = f"count/{widgets.name}"
    quota = Quota(api, ns, hard={name: "1"})
    api.post(widgets.path(ns), widgets.obj("a")).expect(201)
    eventually(lambda: quota.status()["used"] == {name: "1"})
    api.post(widgets.path(ns), widgets.obj("b")).fails(403, "Forbidden")


def test_the_status_follows_the_spec_and_what_others_write(api: Api, ns: str) -> None:
    quota = Quota(api, ns, hard={"secrets": "5"})
    api.post(f"{quota.base}/secrets", {"metadata": {"name": "s"}}).expect(201)
    api.patch(quota.path, {"spec": {"hard": {"services": "3"}}}).expect(200)
    quota.uses(secrets="1", services="0")
    api.patch(f"{quota.path}/status", {"status": {"used": {"secrets": "4"}}}).expect(200)
    quota.uses(secrets="1", services="0")
    assert quota.status()["hard"] == {"secrets": "5", "services": "3"}


def test_a_claim_counts_for_each_attributes_class_that_it_has(api: Api, ns: str) -> None:
    expressions = [{"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}]
    selector = {"matchExpressions": expressions}
    quota = Quota(api, ns, hard={"persistentvolumeclaims": "1"}, scopeSelector=selector)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name, attributes in (("a", "silver"), ("b", "bronze")):
        body = {"metadata": {"name": name}, "spec": {**spec, "volumeAttributesClassName": attributes}}
        api.post(f"{quota.base}/persistentvolumeclaims", body).expect(201)
    quota.uses(persistentvolumeclaims="0")
    current = {"status": {"currentVolumeAttributesClassName": "gold"}}
    api.patch(f"{quota.base}/persistentvolumeclaims/a/status", current).expect(200)
    quota.uses(persistentvolumeclaims="1")
    body = {"metadata": {"name": "c"}, "spec": {**spec, "volumeAttributesClassName": "gold"}}
    failure = api.post(f"{quota.base}/persistentvolumeclaims", body).fails(403, "Forbidden")
    assert "exceeded quota: q, requested: persistentvolumeclaims=1" in failure["message"]


def test_every_quota_must_have_room(api: Api, ns: str) -> None:
    quota = Quota(api, ns, hard={"secrets": "5"})
    api.post(f"{quota.base}/resourcequotas", {"metadata": {"name": "r"}, "spec": {"hard": {"secrets": "0"}}}).expect(
        201
    )
    eventually(lambda: api.get(f"{quota.base}/resourcequotas/r").json()["status"].get("used"))
    failure = api.post(f"{quota.base}/secrets", {"metadata": {"name": "s"}}).fails(403, "Forbidden")
    assert "exceeded quota: r" in failure["message"]
    quota.uses(secrets="0")


def test_the_use_survives_a_restart(tmp_path: Path) -> None:
    with Sandbox(data_dir=tmp_path, insecure_http=True) as sandbox, Api(sandbox.url) as api:
        quota = Quota(api, "default", hard={"secrets": "2"})
        api.post(f"{quota.base}/secrets", {"metadata": {"name": "s"}}).expect(201)
        quota.uses(secrets="1")
    with Sandbox(data_dir=tmp_path, insecure_http=True) as sandbox, Api(sandbox.url) as api:
        base = "/api/v1/namespaces/default"
        api.post(f"{base}/secrets", {"metadata": {"name": "t"}}).expect(201)
        api.post(f"{base}/secrets", {"metadata": {"name": "u"}}).fails(403, "Forbidden")
