"""An API server in a process of its own, which sends events when a gate opens: it needs no interpreter of the test."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.gates import Gate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SOURCE = """
import json, socket, ssl, sys, threading
events, gate, cert = int(sys.argv[1]), sys.argv[2], sys.argv[3]
listener = socket.create_server(("127.0.0.1", 0))
context = None
if cert:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert)
print(listener.getsockname()[1], flush=True)
OK = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n"

def pod(number):
    metadata = {"name": f"p{number}", "namespace": "default", "uid": f"u{number}", "resourceVersion": str(number + 10)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}

def whole(content):
    body = json.dumps(content).encode()
    return OK + b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body)

def chunk(event):
    frame = json.dumps(event).encode() + b"\\n"
    return b"%x\\r\\n%b\\r\\n" % (len(frame), frame)

def serve(connection):
    if context is not None:
        connection = context.wrap_socket(connection, server_side=True)
    while head := connection.recv(65536):
        if b"watch=1" not in head:
            listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
            connection.sendall(whole(listed if b"/pods" in head else {"kind": "ConfigMap"}))
            continue
        connection.sendall(OK + b"Transfer-Encoding: chunked\\r\\n\\r\\n")
        frames = b"".join(chunk({"type": "ADDED", "object": pod(number)}) for number in range(events))
        open(gate).close()
        connection.sendall(frames)
        connection.recv(1)

while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@contextmanager
def event_server(folder: Path, events: int, cert: str = "") -> Iterator[tuple[int, Gate]]:
    """Run a server of pods; return its port, and the gate for the events of its watches.

    `cert` is the path of a certificate and its key, for TLS.
    """
    gate = Gate(folder / "events")
    command = [sys.executable, "-c", _SOURCE, str(events), str(gate.path), cert]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline()), gate
        finally:
            process.kill()
            gate.close()
