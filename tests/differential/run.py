"""The run: send, compare, minimise, count."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import yaml

from tests.differential.changes import Change
from tests.differential.classes import DifferenceClass, Known, difference
from tests.differential.requests import NAMES, NAMESPACE, WIDGETS, Source, Target, with_body
from tests.differential.servers import UID, VERSION, Request, Servers, outcome
from tests.support.http_client import MERGE, Answer, Api
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RESET_EVERY = 500
_SERVER_OWNED = ("managedFields", "creationTimestamp", "generation", "selfLink")
_ALLOCATED = ("clusterIP", "clusterIPs", "healthCheckNodePort")


@dataclass
class Report:
    """What a run has found."""

    seed: int
    requests: int = 0
    other_codes: int = 0
    with_causes: int = 0
    other_fields: int = 0
    classes: Counter[DifferenceClass] = field(default_factory=Counter)
    examples: dict[DifferenceClass, tuple[Request, ...]] = field(default_factory=dict)
    """Requests for each class: those that made the object, and the one with the different answers."""
    codes: Counter[int] = field(default_factory=Counter)

    @property
    def equal_codes(self) -> float:
        """The share of requests with equal status codes."""
        return 1 - self.other_codes / max(1, self.requests)

    @property
    def equal_fields(self) -> float:
        """The share of equal fields, among the requests for which at least one server names causes."""
        return 1 - self.other_fields / max(1, self.with_causes)

    def unlisted(self, listed: list[Known]) -> Counter[DifferenceClass]:
        """Return the classes that no listed difference covers."""
        return Counter(
            {kind: count for kind, count in self.classes.items() if not any(known.covers(kind) for known in listed)}
        )

    def example(self, kind: DifferenceClass) -> str:
        """Return the requests that show a class, one in a line; `--replay` of the command sends them."""
        return "\n".join([f"# {self.classes[kind]} {kind}", *(example.text() for example in self.examples[kind])])

    def __str__(self) -> str:
        lines = [f"{count:6}  {kind}" for kind, count in self.classes.most_common()]
        lines.append(
            f"seed {self.seed}: {self.requests} requests, status codes equal in {self.equal_codes:.2%}, "
            f"fields of causes in {self.equal_fields:.2%} of {self.with_causes}"
        )
        return "\n".join(lines)


def prepare(api: Api) -> None:
    """Create the namespace and the custom kind, as far as they are missing."""
    api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201, 409)
    crd = yaml.safe_load(WIDGETS.read_text())
    api.post(CRDS, crd).expect(201, 409)
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    eventually(lambda: api.get(f"/apis/{group}/v1/namespaces/{NAMESPACE}/{plural}").status == 200)


class Run:
    """One run on two prepared servers."""

    def __init__(self, servers: Servers, targets: list[Target], seed: int) -> None:
        self._servers = servers
        self._targets = targets
        self._source = Source(seed, targets)
        self._live: dict[str, Any] = {}
        self._history: dict[str, tuple[Request, ...]] = {}
        self.report = Report(seed)

    def requests(self, count: int) -> Report:
        """Send a number of requests."""
        for _ in range(count):
            self.step()
        return self.report

    def seconds(self, seconds: float) -> Report:
        """Send requests for a time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step()
        return self.report

    def step(self) -> None:
        """Send one request to both servers, and compare the answers."""
        if self.report.requests % _RESET_EVERY == 0:
            self.reset()
        request, base, changes = self._source.next(self._live)
        answers = self._servers.send(request)
        left, right = (outcome(answer) for answer in answers)
        report = self.report
        report.requests += 1
        report.codes[right.code] += 1
        report.other_codes += left.code != right.code
        report.with_causes += bool(left.fields or right.fields)
        report.other_fields += left.fields != right.fields
        result = difference(request, left, right)
        before = self._history.get(_object_path(request), ())
        self._remember(request, answers)
        if result is None:
            if request.verb == "update status" and right.code == 201:
                # What such a write creates lacks all that is allocated, and makes the real server panic later.
                self._forget(request)
            return
        if request.method != "GET":
            # What follows must not differ because of this.
            self._forget(request)
        report.classes[result] += 1
        if result not in report.examples:
            smallest = self._minimised(result, request, base, changes)
            report.examples[result] = (*before, smallest) if smallest is request else (smallest,)

    def reset(self) -> None:
        """Delete the objects of the run on both servers."""
        self._live.clear()
        self._history.clear()
        for api in self._servers.apis:
            for target in self._targets:
                for item in api.get(target.collection).expect(200)["items"]:
                    name = item["metadata"]["name"]
                    if (
                        target.collection.startswith("/api/v1/nodes")
                        or "/fuzz/" in f"{target.path(name)}/"
                        or name in NAMES
                    ):
                        _delete(api, target.path(name))

    def _remember(self, request: Request, answers: tuple[Answer, Answer]) -> None:
        if any(answer.status >= 400 for answer in answers) or request.query.get("dryRun"):
            return
        path = _object_path(request)
        if request.method != "GET":
            self._history[path] = (*self._history.get(path, ()), request)
        if request.method == "DELETE":
            for path in [path for path in self._live if path.startswith(request.path)]:
                del self._live[path]
        elif request.method != "GET" and not request.path.endswith("/scale"):
            obj = answers[0].json()
            if obj.get("kind") == "Status":
                return
            self._live[path] = _shared(obj)

    def _forget(self, request: Request) -> None:
        """Delete the object of a request that only one server accepted."""
        for path in forget(self._servers, request):
            self._live.pop(path, None)
            self._history.pop(path, None)

    def _minimised(
        self, kind: DifferenceClass, request: Request, base: dict[str, Any] | None, changes: list[Change]
    ) -> Request:
        """Return a request with fewer changes and options that shows the same difference, as a dry run."""
        if base is None or request.verb != "create":
            return request
        best = request
        for query in ({"dryRun": "All"}, {**request.query, "dryRun": "All"}):
            smaller = Request(request.verb, request.kind, request.method, request.path, query, request.media, None)
            left = list(changes)
            for change in changes:
                fewer = [other for other in left if other is not change]
                if self._shows(kind, with_body(smaller, base, fewer)):
                    left = fewer
            candidate = with_body(smaller, base, left)
            if self._shows(kind, candidate):
                return candidate
        return best

    def _shows(self, kind: DifferenceClass, request: Request) -> bool:
        return difference(request, *self._servers.outcomes(request)) == kind


def _object_path(request: Request) -> str:
    """Return the path of a request's object; that of the collection if the request names none."""
    path = request.path.removesuffix("/status").removesuffix("/scale")
    if request.method == "POST":
        body = request.body if isinstance(request.body, dict) else {}
        metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else None
        if metadata and type(name := metadata.get("name")) is str and name:
            return f"{path}/{name}"
    return path


def forget(servers: Servers, request: Request) -> list[str]:
    """Delete the objects of a request on both servers; return their paths."""
    paths = [_object_path(request)]
    if request.method == "POST" or request.verb == "deletecollection":
        paths += [f"{request.path}/{name}" for name in NAMES]
    # The deletion of a Service deletes its Endpoints.
    paths += [path.replace("/services/", "/endpoints/") for path in paths if "/services/" in path]
    for path in paths:
        for api in servers.apis:
            _delete(api, path)
    return paths


def replayed(servers: Servers, text: str) -> Iterator[str]:
    """Send the requests of a kept file; yield its comments, and both answers to each request.

    The objects of a class are deleted before and after it.
    """
    for kept in re.split(r"^(?=#)", text, flags=re.MULTILINE):
        lines = kept.splitlines()
        yield from [line for line in lines if line.startswith("#")]
        requests = [Request.read(line) for line in lines if not line.startswith("#")]
        for request in requests:
            forget(servers, request)
        for request in requests:
            for answer in servers.send(request):
                why = answer.body.decode(errors="replace").rstrip() if answer.status >= 400 else ""
                yield f"    {answer.status} {why}"
        for request in requests:
            forget(servers, request)


def _delete(api: Api, path: str) -> None:
    """Delete an object, whatever delays it."""
    url = quote(path)
    if api.delete(url, {"gracePeriodSeconds": 0}).status in (200, 202):
        answer = api.get(url)
        if answer.status == 200 and answer.json()["metadata"].get("finalizers"):
            api.patch(url, {"metadata": {"finalizers": None}}, MERGE)
        if api.get(url).status == 200:
            api.delete(url, {"gracePeriodSeconds": 0})


def _shared(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what differs between servers."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_OWNED}
    if "resourceVersion" in metadata:
        metadata["resourceVersion"] = VERSION
    if "uid" in metadata:
        metadata["uid"] = UID
    body = {**obj, "metadata": metadata}
    if obj["kind"] == "Service":
        spec = {
            key: value for key, value in obj["spec"].items() if key not in _ALLOCATED or value in ("None", ["None"])
        }
        if "ports" in spec:
            spec["ports"] = [{key: value for key, value in port.items() if key != "nodePort"} for port in spec["ports"]]
        body["spec"] = spec
    return body
