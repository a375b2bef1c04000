"""An API server in a process of its own, which sends events when a gate opens: it needs no interpreter of the test."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.gates import Gate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SOURCE = """
import json, pickle, socket, ssl, sys, threading, time
frames, gate, cert, media, pause = *sys.argv[1:5], float(sys.argv[5])
first, *frames = pickle.load(open(frames, "rb"))
listener = socket.create_server(("127.0.0.1", 0))
context = None
if cert:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert)
print(listener.getsockname()[1], flush=True)
OK = "HTTP/1.1 200 OK\\r\\nContent-Type: %s\\r\\n"

def whole(content):
    body = json.dumps(content).encode()
    return (OK % "application/json").encode() + b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body)

def chunk(frame):
    return b"%x\\r\\n%b\\r\\n" % (len(frame), frame)

def serve(connection):
    if context is not None:
        connection = context.wrap_socket(connection, server_side=True)
    while head := connection.recv(65536):
        if b"watch=1" not in head:
            listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
            connection.sendall(whole(listed if b"/pods" in head else {"kind": "ConfigMap"}))
            continue
        connection.sendall((OK % media + "Transfer-Encoding: chunked\\r\\n\\r\\n").encode() + chunk(first))
        open(gate).close()
        together = 10 if pause else len(frames)
        for begin in range(0, len(frames), together):
            connection.sendall(b"".join(map(chunk, frames[begin : begin + together])))
            time.sleep(pause)
        connection.recv(1)

while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@contextmanager
def event_server(
    folder: Path, frames: list[bytes], cert: str = "", *, media: str = "application/json", pause: float = 0.0
) -> Iterator[tuple[int, Gate]]:
    """Run a server of pods; return its port, and the gate for the frames of its watches after the first one.

    `cert` is the path of a certificate and its key, for TLS; `media` is what the frames are. With a `pause` in seconds
    ten frames come together.
    """
    gate = Gate(folder / "events")
    (folder / "frames").write_bytes(pickle.dumps(frames))
    command = [sys.executable, "-c", _SOURCE, str(folder / "frames"), str(gate.path), cert, media, str(pause)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline()), gate
        finally:
            process.kill()
            gate.close()
