"""The sample operator: its length, and `ctrlhost run` of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import ctrlhost
from tests.support.waiting import eventually

FOLDER = Path(__file__).resolve().parents[2] / "examples/memcached"


@pytest.mark.behaviour("authoring/AD7")
def test_the_sample_operator_has_at_most_40_lines() -> None:
    assert len((FOLDER / "memcached.py").read_text().splitlines()) <= 40


@pytest.mark.behaviour("authoring/AD7")
@pytest.mark.behaviour("authoring/AN7")
def test_the_sample_operator_runs_without_packaging(start_host) -> None:
    host = start_host(str(FOLDER / "memcached.py"), "--sandbox", "--set=memcached.image=memcached:1.6.40")
    host.line("plugin memcached running")
    client = ctrlhost.Client.load(host.kubeconfig)
    client.create(
        {**yaml.safe_load((FOLDER / "cache.yaml").read_text()), "metadata": {"name": "cache", "namespace": "default"}}
    )
    deployment = eventually(lambda: client.find("apps/v1", "Deployment", "cache", "default"), 60, "the Deployment")
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "memcached:1.6.40"
    host.wait_for_metric(1, "controller_runtime_reconcile_total", controller="memcached/memcached", result="success")
    assert host.stop() == 0
