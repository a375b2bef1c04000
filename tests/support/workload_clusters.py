"""Sandboxes with every built-in controller and instant pods, and queries of their pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ctrlhost_sandbox import Options, Sandbox

from tests.support.http_client import Api
from tests.support.objects import core

EVERYTHING = ("gc", "namespace", "workloads", "service")


def cluster(controllers: Iterable[str] = EVERYTHING) -> Sandbox:
    options = Options(
        pod_start_delay=0.0, pod_ready_delay=0.0, pod_run_delay=0.0, pod_stop_delay=0.0, load_balancer_delay=0.0
    )
    return Sandbox(options=options, controllers=controllers)


def ready(pod: dict[str, Any]) -> bool:
    conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True"


def pods(api: Api, ns: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.get(core(ns, "pods")).expect(200)["items"]
    return items


def by_name(api: Api, ns: str) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in pods(api, ns)}


def status(api: Api, path: str) -> dict[str, Any]:
    state: dict[str, Any] = api.get(path).expect(200).get("status", {})
    return state


def reasons(api: Api, ns: str, kind: str) -> list[str]:
    """Return the reasons of the events about objects of a kind."""
    items = api.get(core(ns, "events")).expect(200)["items"]
    return [item["reason"] for item in items if item["involvedObject"]["kind"] == kind]
