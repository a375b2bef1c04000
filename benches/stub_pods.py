"""A stub API server in its own process that lists pods and streams updates as fast as the socket accepts them.

    python -m benches.stub_pods PODS EVENTS [PACE]

It prints its URL, then serves `GET /api/v1/pods` in pages and, for a watch, EVENTS modifications. Pods are about 5 KB
of JSON and differ like real ones: names, uids, times, environment, side cars, managed fields. PACE is the number of
events per second; each has the annotation `sent`, in nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import random
import re
import socket
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

import msgspec

FIRST_REVISION = 1_000_000
CHUNK_EVENTS = 64
DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "pods",
                "singularName": "pod",
                "namespaced": True,
                "kind": "Pod",
                "verbs": ["get", "list", "watch"],
            }
        ],
    },
}


def pod(number: int, revision: int) -> dict[str, object]:
    """Return pod `number` at `revision`."""
    rng = random.Random(number)
    app = f"app-{number % 97}"
    name = f"{app}-{rng.randrange(16**9):09x}-{rng.randrange(36**5):05d}"
    uid = f"{rng.getrandbits(128):032x}"
    created = (
        f"2026-{rng.randrange(1, 12):02d}-{rng.randrange(1, 28):02d}T{rng.randrange(24):02d}:{number % 60:02d}:00Z"
    )
    containers = [container(rng, which) for which in ["main", "proxy", "logs"][: 2 + number % 2]]
    statuses = [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": f"registry.example/{one['name']}@sha256:{rng.getrandbits(256):064x}",
            "containerID": f"containerd://{rng.getrandbits(256):064x}",
            "ready": True,
            "started": True,
            "restartCount": revision % 7,
            "state": {"running": {"startedAt": created}},
            "lastState": {},
        }
        for one in containers
    ]
    metadata = {
        "name": name,
        "generateName": f"{app}-",
        "namespace": f"team-{number % 40}",
        "uid": uid,
        "resourceVersion": str(revision),
        "generation": 1,
        "creationTimestamp": created,
        "labels": {
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/version": f"1.{number % 30}.{number % 7}",
            "pod-template-hash": f"{rng.randrange(16**9):09x}",
            "team": f"team-{number % 40}",
        },
        "annotations": {
            "checksum/config": f"{rng.getrandbits(256):064x}",
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(8000 + number % 1000),
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"{app}-{number % 11}",
                "uid": f"{rng.getrandbits(128):032x}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": "v1",
                "time": created,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {} for key in ("app", "team", "hash")}}},
            }
            for manager in ("kube-controller-manager", "kubelet")
        ],
    }
    spec = {
        "containers": containers,
        "nodeName": f"node-{rng.randrange(200)}",
        "serviceAccountName": app,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "tolerations": [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for why in ("not-ready", "unreachable")
        ],
        "volumes": [{"name": "config", "configMap": {"name": app, "defaultMode": 420}}],
    }
    status = {
        "phase": "Running",
        "podIP": f"10.{number % 250}.{number // 250 % 250}.7",
        "hostIP": f"192.0.2.{number % 250}",
        "startTime": created,
        "qosClass": "Burstable",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": created}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": statuses,
    }
    return {"metadata": metadata, "spec": spec, "status": status}


def container(rng: random.Random, name: str) -> dict[str, object]:
    """Return one container with its own environment."""
    return {
        "name": name,
        "image": f"registry.example/{name}:{rng.randrange(40)}.{rng.randrange(10)}",
        "args": [f"--shard={rng.randrange(64)}", f"--region=zone-{rng.randrange(9)}"],
        "ports": [{"name": "http", "containerPort": 8000 + rng.randrange(999), "protocol": "TCP"}],
        "env": [
            {"name": f"SETTING_{rng.randrange(999):03d}", "value": f"{rng.getrandbits(64):016x}"}
            for _ in range(5 + rng.randrange(4))
        ],
        "resources": {
            "limits": {"memory": f"{rng.randrange(1, 9) * 128}Mi"},
            "requests": {"cpu": f"{rng.randrange(1, 20) * 50}m"},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


class StubServer:
    """Lists and watches pods whose bytes exist before the first client connects."""

    def __init__(self, pods: int, events: int, pace: float = 0.0) -> None:
        self._pace = pace
        encode = msgspec.json.encode
        self._items = [encode(pod(number, FIRST_REVISION - pods + number)) for number in range(pods)]
        self._chunks = []
        lines: list[bytes] = []
        for step in range(events):
            # A change of a pod: its version and its restart counts.
            changed = self._items[step % pods].replace(
                b'"resourceVersion":"%d"' % (FIRST_REVISION - pods + step % pods),
                b'"resourceVersion":"%d"' % (FIRST_REVISION + 1 + step),
            )
            changed = changed.replace(b'"restartCount":', b'"restartCount":%d' % (1 + step % 9))
            lines.append(b'{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1",%b}\n' % changed[1:])
            if pace or len(lines) == CHUNK_EVENTS or step == events - 1:
                body = b"".join(lines)
                self._chunks.append(body if pace else b"%x\r\n%b\r\n" % (len(body), body))
                lines = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Answer each connection on its own thread, forever."""
        while True:
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        pending = b""
        try:
            while True:
                while b"\r\n\r\n" not in pending:
                    received = connection.recv(65536)
                    if not received:
                        return
                    pending += received
                head, pending = pending.split(b"\r\n\r\n", 1)
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                pending = pending[int(length[1]) if length else 0 :]
                self._answer(connection, head.split(b" ", 2)[1].decode())
        except OSError:
            return
        finally:
            connection.close()

    def _answer(self, connection: socket.socket, target: str) -> None:
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path in DISCOVERY:
            _send(connection, 200, msgspec.json.encode(DISCOVERY[url.path]))
        elif url.path != "/api/v1/pods":
            _send(connection, 404, _status(404, "NotFound", "this server has only pods"))
        elif query.get("watch", "") in ("1", "true", "True"):
            if query.get("sendInitialEvents") == "true":
                message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
                _send(connection, 422, _status(422, "Invalid", message))
                return
            self._watch(connection, int(query.get("resourceVersion") or 0))
        else:
            start = int(query.get("continue") or 0)
            stop = start + int(query.get("limit") or 0) if query.get("limit") else len(self._items)
            meta: dict[str, object] = {"resourceVersion": str(FIRST_REVISION)}
            if stop < len(self._items):
                meta |= {"continue": str(stop), "remainingItemCount": len(self._items) - stop}
            opening = b'{"kind":"PodList","apiVersion":"v1","metadata":' + msgspec.json.encode(meta) + b',"items":['
            _send(connection, 200, opening + b",".join(self._items[start:stop]) + b"]}")

    def _watch(self, connection: socket.socket, revision: int) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        if revision <= FIRST_REVISION and self._pace:
            self._send_at_pace(connection)
        elif revision <= FIRST_REVISION:
            for chunk in self._chunks:
                connection.sendall(chunk)
        # No more events; the client ends the connection.
        connection.recv(1)

    def _send_at_pace(self, connection: socket.socket) -> None:
        """Send each event when it is due, stamped with that time."""
        begun = time.monotonic() + 1.0
        for step, line in enumerate(self._chunks):
            while (early := begun + step / self._pace - time.monotonic()) > 0:
                time.sleep(early)
            stamp = b'"annotations":{"sent":"%d",' % time.monotonic_ns()
            body = line.replace(b'"annotations":{', stamp, 1)
            connection.sendall(b"%x\r\n%b\r\n" % (len(body), body))


def _status(code: int, reason: str, message: str) -> bytes:
    return msgspec.json.encode(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
    )


def _send(connection: socket.socket, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)


def main() -> None:
    """Serve the pods and events of the arguments."""
    server = StubServer(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.0)
    print(server.url, flush=True)
    server.serve()


if __name__ == "__main__":
    main()
