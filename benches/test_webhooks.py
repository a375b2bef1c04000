"""Admissions through the webhook of a plugin, and through controller-runtime's webhook server with the same function.

Sixteen clients, each with a connection, send the same review. The rows are webhooks/WH29 and WH7.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benches.conftest import PEERS
from benches.supervised import host
from tests.support.waiting import eventually
from tests.support.webhook_host import Certificate, Listener, config_map, review

if TYPE_CHECKING:
    from benches.ratios import Ratios
    from tests.support.host_process import HostProcess

#: Reviews per second of all clients together, and how long they send.
PACE, SECONDS = 1_000, 10
#: Reviews that the stuck plugin has, of which it runs 8, and the pace of the other one meanwhile.
STUCK, PACE_BESIDE = 72, 100
GUARD = """
import ctrlhost

plugin = ctrlhost.Plugin()


@plugin.validate("v1/ConfigMap", timeout="30s")
def size(ctx, new, old):
    if new["data"]["size"] == "large":
        raise ctrlhost.Denied("must be small")
"""
HANGS = """
import threading
import ctrlhost

plugin = ctrlhost.Plugin()


@plugin.validate("v1/ConfigMap", timeout="30s")
def hangs(ctx, new, old):
    threading.Event().wait()
"""


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path / "tls")


@pytest.fixture
def admissions(
    go_peers: Callable[..., dict[str, float]], certificate: Certificate, tmp_path: Path
) -> Callable[..., dict[str, float]]:
    """Return a function that sends reviews to a webhook, and returns the rate and the times of the answers."""
    (tmp_path / "ca.pem").write_text(certificate.authority.pem)
    (tmp_path / "review.json").write_bytes(review(config_map("one", {"a": "b"}, size="small")))

    def run(url: str, pace: float = 0.0) -> dict[str, float]:
        files = (f"--ca={tmp_path / 'ca.pem'}", f"--review={tmp_path / 'review.json'}")
        return go_peers("admissions", f"--url={url}", *files, f"--pace={pace}", f"--seconds={SECONDS}")

    return run


@pytest.fixture
def peer(certificate: Certificate) -> Iterator[str]:
    """Run controller-runtime's webhook server, and return the address of its validator."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with subprocess.Popen([PEERS, "webhook", f"--port={port}", f"--certificates={certificate.folder}"]) as process:
        try:
            listener = Listener(f"127.0.0.1:{port}", certificate)

            def answers() -> bool:
                with contextlib.suppress(OSError):
                    return listener.send("/validate", None, "GET")[0] > 0
                return False

            eventually(answers, 30, pause=0.02)
            yield f"https://127.0.0.1:{port}/validate"
        finally:
            process.kill()


def address_of(process: HostProcess) -> str:
    return str(process.line("serving webhooks on https://")["msg"]).rpartition("//")[2]


def options(certificate: Certificate) -> tuple[str, ...]:
    return "--set=host.webhook_listen=127.0.0.1:0", f"--set=host.webhook_cert_dir={certificate.folder}"


@pytest.mark.behaviour("webhooks/WH29")
def test_admissions(
    ratios: Ratios,
    stub_pods: Callable[..., Any],
    admissions: Callable[..., dict[str, float]],
    certificate: Certificate,
    peer: str,
    tmp_path: Path,
) -> None:
    with stub_pods(10, 0, 1) as url, host(tmp_path / "host", url, {"guard": GUARD}, *options(certificate)) as process:
        ours = f"https://{address_of(process)}/validate/guard/size"
        process.line("plugin guard running")
        for name, pace in (("as fast as they are answered", 0.0), (f"{PACE:,}/s", float(PACE))):
            theirs, own = admissions(peer, pace), admissions(ours, pace)
            if pace:
                for part in ("p50", "p99"):
                    ratios.add(
                        "webhooks", f"admission, {name}: {part}", "s", own[part], controller_runtime=theirs[part]
                    )
            rate = f"an admission of 16 clients, {name}"
            ratios.add("webhooks", rate, "s", 1 / own["rate"], controller_runtime=1 / theirs["rate"])
        assert process.stop() == 0


@pytest.mark.behaviour("webhooks/WH7")
def test_admissions_beside_a_stuck_plugin(
    ratios: Ratios,
    stub_pods: Callable[..., Any],
    admissions: Callable[..., dict[str, float]],
    certificate: Certificate,
    tmp_path: Path,
) -> None:
    plugins = {"guard": GUARD, "stuck": HANGS}
    with stub_pods(10, 0, 1) as url, host(tmp_path / "host", url, plugins, *options(certificate)) as process:
        address = address_of(process)
        name, _, port = address.rpartition(":")
        process.line("plugin guard running")
        process.line("plugin stuck running")
        body = review(config_map("one", {}, size="small"))
        head = f"POST /validate/stuck/hangs HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with contextlib.ExitStack() as waiting:
            for _ in range(STUCK):
                plain = waiting.enter_context(socket.create_connection((name, int(port)), 30))
                secure = certificate.context().wrap_socket(plain, server_hostname="localhost")
                waiting.enter_context(secure).sendall(head + body)

            def stuck() -> bool:
                rows = json.loads(process.get("/api/v1/status")[1])["webhooks"]
                return any(row["in_flight"] == STUCK for row in rows)

            process.eventually(stuck, "stuck reviews")
            times = admissions(f"https://{address}/validate/guard/size", PACE_BESIDE)
        ratios.add("webhooks", f"admission beside {STUCK} stuck ones of another plugin: p99", "s", times["p99"])
        process.stop()
