"""Hosts that start with the arguments of printed Deployments."""

from __future__ import annotations

import re
import socket
import ssl
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.host.conftest import Distributions, StartHost
from tests.support.manifests import Printed, container
from tests.support.plugin_sources import GREETER

behaviour = pytest.mark.behaviour


def free_port() -> int:
    with socket.socket(socket.AF_INET6) as listening:
        listening.bind(("::1", 0))
        return int(listening.getsockname()[1])


def get(url: str) -> int:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=10, context=context if url.startswith("https") else None) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@behaviour("operations/OP148")
def test_a_host_listens_where_its_manifests_say(
    start_host: StartHost, distributions: Distributions, printed: Printed, sandbox: Any
) -> None:
    distributions.add("greeter", GREETER)
    probes, metrics = free_port(), free_port()
    addresses = [f"--set=host.listen_probes=[::]:{probes}", f"--set=host.listen_metrics=[::]:{metrics}"]
    arguments = container(printed("--plugins=greeter", *addresses, "--set=host.listen=127.0.0.1:1"))["args"]
    assert arguments[0] == "run"
    for address in addresses:
        assert arguments.count(address) == 1
    kept = [argument for argument in arguments[1:] if not re.match("--set=host.listen=", argument)]
    host = start_host(*kept, f"--kubeconfig={sandbox.kubeconfig}")
    host.line("plugin greeter running")
    assert get(f"http://[::1]:{probes}/livez") == 200
    assert get(f"http://127.0.0.1:{probes}/readyz") == 200
    assert get(f"http://[::1]:{probes}/metrics") == 404
    assert get(f"https://[::1]:{metrics}/metrics") == 401
    assert host.stop() == 0


@behaviour("operations/OP148")
@pytest.mark.parametrize("address", ["127.0.0.1:8484", "[::1]:8484", "localhost:8484"])
def test_probes_on_loopback_are_refused(ctrlhost: Any, distributions: Distributions, address: str) -> None:
    distributions.add("greeter", GREETER)
    result = ctrlhost("manifests", "--plugins=greeter", f"--set=host.listen_probes={address}")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "error: host.listen_probes: the kubelet cannot reach a loopback address",
        "",
        "hint: write `:8484`",
    ]
