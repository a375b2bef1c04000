"""Requests to the admin API of a running host."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.host_process import LIMIT

if TYPE_CHECKING:
    from tests.support.host_process import HostProcess


def socket_of(host: HostProcess) -> Path:
    """Return the local socket of a host."""
    message: str = host.line("local socket at ")["msg"]
    return Path(message.removeprefix("local socket at "))


def send(path: Path, action: str, body: bytes, method: str = "POST", prefix: str = "/admin/v1/") -> tuple[int, Any]:
    """Send these bytes; return the status and the JSON of the answer."""
    connection = http.client.HTTPConnection("localhost", timeout=LIMIT)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(LIMIT)
    connection.sock.connect(str(path))
    with contextlib.closing(connection):
        connection.request(method, prefix + action, body)
        answer = connection.getresponse()
        assert answer.getheader("content-type") == "application/json"
        return answer.status, json.loads(answer.read())


def act(host: HostProcess, action: str, /, **fields: Any) -> tuple[int, Any]:
    """Ask the host to do something."""
    return send(socket_of(host), action, json.dumps(fields).encode())


def done(host: HostProcess, action: str, /, **fields: Any) -> Any:
    """Have the host do something; return its answer."""
    status, answer = act(host, action, **fields)
    assert status == 200, answer
    return answer
