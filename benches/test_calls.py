"""The processor time of a client that patches, against a server that answers at once."""

from __future__ import annotations

import base64
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

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


def test_processor_time_of_a_patch(ratios: Ratios, stub_pods: Callable[..., Any], tmp_path: Path) -> None:
    """Both clients take turns, since the speed of a machine drifts."""
    count, rounds = (4_000, 3) if ratios.short else (20_000, 5)
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
