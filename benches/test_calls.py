"""Calls of a client: the processor time of a PATCH, and the time of a GET beside a large list."""

from __future__ import annotations

import base64
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ctrlhost import Client, InformerFactory

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios

pytestmark = pytest.mark.scale

CONNECTIONS = 8


def kubeconfig(url: str, ca: str) -> dict[str, Any]:
    authority = base64.b64encode(Path(ca).read_bytes()).decode()
    return {
        "current-context": "stub",
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
        "clusters": [{"name": "stub", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "stub", "user": {"token": "none"}}],
    }


@pytest.mark.behaviour("scale/SC158")
def test_processor_time_of_a_patch(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path: Path) -> None:
    """Both clients take turns, since the speed of a machine drifts."""
    count, rounds = 20_000, 5
    names = "\n".join(f"ingress-{number:05} uid-{number:05}" for number in range(count))
    taken: dict[str, list[float]] = {"ctrlhost": [], "http.client": []}
    with stub_pods(0, 0, tls=True) as (url, ca):
        config = tmp_path / "kubeconfig"
        config.write_text(yaml.safe_dump(kubeconfig(url, ca)), encoding="utf-8")
        for _ in range(rounds):
            for which, seconds in taken.items():
                done = subprocess.run(
                    [sys.executable, "-m", "benches.bare_patches", which, str(config), str(CONNECTIONS), "203.0.113.1"],
                    check=True,
                    stdout=subprocess.PIPE,
                    input=names,
                    text=True,
                    timeout=300,
                )
                seconds.append(float(done.stdout) / count)
    ours, peer = (statistics.median(seconds) for seconds in taken.values())
    ratios.add("scale", "processor time of a PATCH", "s", ours, http_client=peer)


@pytest.mark.behaviour("scale/SC4")
def test_a_call_beside_a_large_list(ratios: Ratios, stub_pods: Callable[..., Any]) -> None:
    """The client and the informer have servers of their own, which share the processors."""
    count = 200_000
    with stub_pods(count, 0, tls=True) as (lists, lists_ca), stub_pods(1, 0, tls=True) as (url, ca):
        client = Client(url, ca=ca)
        alone = p99_of_gets(client)
        with InformerFactory(Client(lists, ca=lists_ca)) as factory:
            informer = factory.informer("v1", "Pod")
            factory.start()
            while not informer.status().listing:
                time.sleep(0.001)
            beside = p99_of_gets(client)
            assert not informer.has_synced
    ratios.add("scale", "p99 of a GET beside a large list, above that without", "s", max(0.0, beside - alone))


def p99_of_gets(client: Client) -> float:
    taken = []
    for _ in range(100):
        start = time.perf_counter()
        client.list("v1", "Pod")
        taken.append(time.perf_counter() - start)
    return sorted(taken)[98]
