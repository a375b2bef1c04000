"""Requests to the admin API of a running host, and a plugin to act on."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.host_process import LIMIT
from tests.support.plugin_modules import config_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost import Client
    from tests.support.host_process import HostProcess

#: Three controllers; `a` reconciles what is labelled a=1, and so on. It does what the data says.
ACTING = """
    import os
    import time
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        for name in ("a", "b", "c"):
            source = ctrlhost.For("v1", "ConfigMap", label_selector=f"{name}=1")
            plugin.add_controller(name, reconcile, source)
        plugin.add_controller("free", reconcile)

    def reconcile(ctx, request):
        obj = ctx.get(request) if ctx.controller.rpartition("/")[2] != "free" else None
        data = obj.to_dict().get("data", {}) if obj is not None else {}
        ctx.log.info("run %s %s %s in %d", ctx.controller, request, data.get("n", "-"), os.getpid())
        ctx.log.debug("a debug line of %s", request)
        while "hold" in data and not os.path.exists(data["hold"]):
            time.sleep(0.01)
        if data.get("fail") and not os.path.exists(data["fail"]):
            raise KeyError("spec")
        ctx.log.info("ended %s %s", ctx.controller, request)
"""

#: `inside` runs in the process of the host, `apart` in one of its own.
EITHER = pytest.mark.parametrize("plugin", ["inside", "apart"])


def socket_of(host: HostProcess) -> Path:
    """Return the local socket of a host."""
    message: str = host.line("local socket at ")["msg"]
    return Path(message.removeprefix("local socket at "))


def send(
    path: Path,
    action: str,
    body: bytes,
    method: str = "POST",
    prefix: str = "/admin/v1/",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, Any]:
    """Send these bytes; return the status and the JSON of the answer."""
    connection = http.client.HTTPConnection("localhost", timeout=LIMIT)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(LIMIT)
    connection.sock.connect(str(path))
    with contextlib.closing(connection):
        connection.request(method, prefix + action, body, headers)
        answer = connection.getresponse()
        assert answer.getheader("content-type") == "application/json"
        assert answer.getheader("x-content-type-options") == "nosniff"
        assert answer.getheader("cache-control") == "no-store"
        assert answer.getheader("allow") == ("POST" if answer.status == 405 else None)
        return answer.status, json.loads(answer.read())


def act(host: HostProcess, action: str, /, **fields: Any) -> tuple[int, Any]:
    """Ask the host to do something."""
    return send(socket_of(host), action, json.dumps(fields).encode())


def done(host: HostProcess, action: str, /, **fields: Any) -> Any:
    """Send an action to the host, and return its answer."""
    status, answer = act(host, action, **fields)
    assert status == 200, answer
    return answer


class Acting:
    """A host that can be acted on, and its API server."""

    def __init__(self, host: HostProcess, client: Client, folder: Path) -> None:
        self.host = host
        self.client = client
        self.folder = folder

    def create(self, label: str, name: str, **data: str) -> None:
        self.client.create(config_map(name, labels={label: "1"}, **data))

    def runs(self, controller: str, key: str) -> int:
        """Return how often a key was reconciled so far."""
        return len([line for line in self.host.lines if line["msg"].startswith(f"run {controller} {key} ")])

    def ran(self, controller: str, key: str, times: int = 1) -> None:
        """Wait until a key was reconciled so many times."""
        self.host.wait_for(lambda: self.runs(controller, key) >= times, f"{times} runs of {key}")
        assert self.runs(controller, key) == times
