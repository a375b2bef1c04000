"""A client that only patches the status of Ingresses, over a given number of connections, in its own process.

    python -m benches.bare_patches ctrlhost|http.client KUBECONFIG CONNECTIONS IP < NAMES

It prints the seconds of processor time of sending, without the start of the interpreter. `ctrlhost` is the client that
plugins have, without cache, queue or watch. `http.client` is Python's own with prepared requests: the least possible.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

MANAGER = "ctrlhost-ingress-status"
INGRESS = ("networking.k8s.io/v1", "Ingress")
Names = list[tuple[str, str]]


def with_ctrlhost(kubeconfig: str, status: dict[str, Any]) -> Callable[[Names], None]:
    """Send with one client of ctrlhost that all threads share."""
    import ctrlhost

    client = ctrlhost.Client.load(kubeconfig).derive(field_manager=MANAGER)

    def send(names: Names) -> None:
        for name, uid in names:
            patch = {"metadata": {"uid": uid}, "status": status}
            client.patch(*INGRESS, name, "default", patch, subresource="status")

    return send


def connect(kubeconfig: Path) -> tuple[http.client.HTTPSConnection, dict[str, str]]:
    """Return a connection of Python's standard library, which opens with the first request, and the headers for it."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster, token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    parts = urlsplit(cluster["server"])
    context = ssl.create_default_context(cadata=authority)
    connection = http.client.HTTPSConnection(str(parts.hostname), parts.port, context=context)
    return connection, {"Authorization": f"Bearer {token}"}


def with_http_client(kubeconfig: str, status: dict[str, Any]) -> Callable[[Names], None]:
    """Send with a connection of Python's standard library for each thread."""

    def send(names: Names) -> None:
        connection, headers = connect(Path(kubeconfig))
        headers["Content-Type"] = "application/merge-patch+json"
        ready = []
        for name, uid in names:
            body = json.dumps({"metadata": {"uid": uid}, "status": status}, separators=(",", ":")).encode()
            path = f"/apis/{INGRESS[0]}/namespaces/default/ingresses/{name}/status?fieldManager={MANAGER}"
            ready.append((path, body))
        for path, body in ready:
            connection.request("PATCH", path, body, headers)
            connection.getresponse().read()

    return send


def main() -> None:
    """Patch the Ingresses that standard input lists as `name uid`."""
    which, kubeconfig, connections, ip = sys.argv[1:]
    names = [(name, uid) for name, uid in (line.split() for line in sys.stdin)]
    make = with_ctrlhost if which == "ctrlhost" else with_http_client
    send = make(kubeconfig, {"loadBalancer": {"ingress": [{"ip": ip}]}})
    share = int(connections)
    threads = [threading.Thread(target=send, args=(names[number::share],)) for number in range(share)]
    before = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(time.process_time() - before)


if __name__ == "__main__":
    main()
