"""Streams of the core over a real connection, for tests of what reads them."""

from __future__ import annotations

import socket
import threading

from ctrlhost._core import HttpClient, HttpStream


def open_stream(body: bytes, *, rest: threading.Event | None = None, cut: bool = False) -> HttpStream:
    """Return a stream whose body is `body`, which ends at once or, with `rest`, when that is set; `cut` it there."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port = listener.getsockname()[1]

    def answer() -> None:
        with listener, listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            connection.sendall(b"%x\r\n%b\r\n" % (len(body), body))
            if rest is not None:
                rest.wait()
            if not cut:
                connection.sendall(b"0\r\n\r\n")

    threading.Thread(target=answer, daemon=True).start()
    client = HttpClient(https=False, host="127.0.0.1", port=port, authority=f"127.0.0.1:{port}")
    _, stream = client.stream("/", [], 30.0, "GET /")
    assert stream is not None
    return stream
