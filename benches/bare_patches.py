"""A client that does nothing but patch the status of Ingresses, over so many connections; a process of its own.

    python -m benches.bare_patches URL CA-FILE TOKEN CONNECTIONS IP < NAMES

Prints the seconds that all took. The requests are those of the plugin, made ready before the first one goes out.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import threading
import time
from urllib.parse import urlsplit

MANAGER = "ctrlhost-ingress-status"


class Worker(threading.Thread):
    """One connection, and its share of the Ingresses."""

    def __init__(self, url: str, ca: str, token: str, requests: list[tuple[str, bytes]]) -> None:
        super().__init__()
        parts = urlsplit(url)
        context = ssl.create_default_context(cafile=ca)
        self._connection = http.client.HTTPSConnection(str(parts.hostname), parts.port, context=context)
        self._connection.connect()
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
        self._requests = requests
        self.failed = 0

    def run(self) -> None:
        for path, body in self._requests:
            self._connection.request("PATCH", path, body, self._headers)
            answer = self._connection.getresponse()
            answer.read()
            self.failed += answer.status != 200


def main() -> None:
    """Patch the Ingresses `name uid` of the standard input."""
    url, ca, token, connections, ip = sys.argv[1:]
    requests = []
    for line in sys.stdin:
        name, uid = line.split()
        status = {"loadBalancer": {"ingress": [{"ip": ip}]}}
        body = json.dumps({"metadata": {"uid": uid}, "status": status}, separators=(",", ":")).encode()
        path = f"/apis/networking.k8s.io/v1/namespaces/default/ingresses/{name}/status?fieldManager={MANAGER}"
        requests.append((path, body))
    workers = [Worker(url, ca, token, requests[number :: int(connections)]) for number in range(int(connections))]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - began
    print(json.dumps({"seconds": seconds, "failed": sum(worker.failed for worker in workers)}))


if __name__ == "__main__":
    main()
