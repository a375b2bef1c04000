"""Fuzzed requests: each gets a fitting Status in time, and the server keeps running and keeps its objects.

CTRLHOST_FUZZ_REQUESTS is the number of requests (`make soak`: 100,000); CTRLHOST_SEED repeats a run.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sandbox.tests.conftest import Crd, crd_body
from sandbox.tests.server.fuzzing import CRDS, GROUP, NAMESPACE, Fuzz
from tests.support.http_client import Api
from tests.support.objects import config_map, core, deployment, pod, service

REQUESTS = int(os.environ.get("CTRLHOST_FUZZ_REQUESTS", "3000"))
# Fuzzed requests contain no similar name, so no mutation of one refers to this group.
KEPT_GROUP = "kept.example.com"
# Processor time of the server: wall-clock time depends on the load of the machine.
LONGEST_SECONDS = 10.0
PATIENCE_SECONDS = 100
MEMORY_BYTES = 700 << 20
SERVER = """
import sys
from ctrlhost_sandbox import Options, Sandbox
everything = ("gc", "namespace", "workloads", "service")
sandbox = Sandbox(insecure_http=True, controllers=everything).start()
print(sandbox.url, flush=True)
sys.stdin.read()
"""
REASONS = {
    400: {"BadRequest", ""},
    401: {"Unauthorized"},
    403: {"Forbidden"},
    404: {"NotFound"},
    405: {"MethodNotAllowed"},
    406: {"NotAcceptable"},
    409: {"Conflict", "AlreadyExists"},
    410: {"Expired", "Gone"},
    413: {"RequestEntityTooLarge"},
    414: {"RequestURITooLong"},
    415: {"UnsupportedMediaType"},
    422: {"Invalid"},
    429: {"TooManyRequests"},
    431: {"RequestHeaderFieldsTooLarge"},
    501: {"NotImplemented"},
    504: {"Timeout"},
}
# Failures that are a 500 on a real server, too.
FAULTS = (
    "resourceVersion should not be set on objects to be created",
    "etcdserver: request is too large",
    "does not contain declared merge key",
    "failed to create typed patch object",
    ": field not declared in schema",
    "failed to convert new object",
    "strconv.ParseUint",
    "unknown patch type: ",
    "list element types are not identical",
    "duplicate nodePort: ",
    "Object 'apiVersion' is missing",
)


class Server:
    """A sandbox in its own process, so that its memory can be measured."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", SERVER]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        host, _, port = self.url.rpartition("/")[2].rpartition(":")
        self.address = (host, int(port))

    @property
    def memory(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))

    @property
    def seconds(self) -> float:
        """The processor time used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def fuzzed() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def send(server: Server, request: bytes) -> tuple[int, str, bytes] | None:
    """Return status, content type and body; None if the server closed the connection, as for malformed HTTP."""
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            # The server refused before it had read everything; its response may still be readable.
            pass
        answer = http.client.HTTPResponse(connection, method="HEAD" if request.startswith(b"HEAD ") else "GET")
        try:
            answer.begin()
            return answer.status, answer.headers.get("Content-Type", ""), answer.read()
        except (http.client.HTTPException, ConnectionError):
            return None


def check(answer: tuple[int, str, bytes]) -> None:
    code, kind, body = answer
    if code < 400 or not body:
        return
    if not kind.startswith(("application/json", "application/yaml")):
        assert code == 404, answer
        return
    status = json.loads(body) if kind.startswith("application/json") else yaml.safe_load(body)
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", code), answer
    if code == 500:
        assert any(text in status["message"] for text in FAULTS), answer
    else:
        assert status.get("reason", "") in REASONS[code], answer


def held(api: Api) -> list[bytes]:
    """Return the objects that the fuzz must not change."""
    paths = (core("kept", "configmaps"), core("kept", "services"), f"/apis/{KEPT_GROUP}/v1/namespaces/kept/widgets")
    lists = [api.get(path).expect(200)["items"] for path in (*paths, "/apis/apps/v1/namespaces/kept/deployments")]
    lists.append(api.get(f"{CRDS}/widgets.{KEPT_GROUP}").expect(200))
    return [json.dumps(items).encode() for items in lists]


def test_fuzzed_requests_get_a_fitting_status_and_keep_the_server_healthy(fuzzed: Server) -> None:
    seed = int(os.environ.get("CTRLHOST_SEED", random.randrange(2**32)))
    print(f"CTRLHOST_SEED={seed}")
    with Api(fuzzed.url) as api:
        for namespace, group in (("kept", KEPT_GROUP), (NAMESPACE, GROUP)):
            api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).expect(201)
            Crd(api, crd_body(group)).establish()
            api.post(core(namespace, "configmaps"), config_map()).expect(201)
            api.post(core(namespace, "services"), service()).expect(201)
            widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}}
            api.post(f"/apis/{group}/v1/namespaces/{namespace}/widgets", widget).expect(201)
            dormant = deployment("a", replicas=0)
            api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", dormant).expect(201)
        api.post(core(NAMESPACE, "pods"), pod("a")).expect(201)
        before = held(api)
        fuzz = Fuzz(seed, fuzzed.url.rpartition("/")[2])
        outcomes: Counter[int | None] = Counter()
        for number in range(REQUESTS):
            request, spent = fuzz.request(), fuzzed.seconds
            try:
                answer = send(fuzzed, request)
                outcomes[answer[0] if answer else None] += 1
                if answer is not None:
                    check(answer)
                    assert fuzzed.seconds - spent < LONGEST_SECONDS
            except (AssertionError, KeyError, OSError, ValueError) as error:
                raise AssertionError(f"request {number} of seed {seed}: {request[:2000]!r}") from error
            assert fuzzed.process.poll() is None, (
                f"request {number} of seed {seed} ended the server: {request[:2000]!r}"
            )
        assert outcomes[None] < REQUESTS / 10, outcomes
        assert outcomes.keys() >= {200, 400, 404, 405, 413, 415, 422}, outcomes
        assert held(api) == before
        api.post(core("kept", "configmaps"), config_map("after")).expect(201)
        assert api.get("/readyz").status == 200
        assert fuzzed.memory < MEMORY_BYTES
