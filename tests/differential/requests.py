"""Random requests for a set of kinds, reproducible from a seed."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.differential.changes import Change, Mutator, applied, value_at
from tests.differential.servers import UID, VERSION, Request
from tests.support.http_client import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Api

SEEDS = Path(__file__).with_name("seeds.yaml")
WIDGETS = Path(__file__).with_name("widgets.yaml")
NAMESPACE = "fuzz"
NAMES = ("fuzz-a", "fuzz-b")
#: How often each verb is chosen.
VERBS = {
    "create": 30, "update": 16, "json patch": 8, "merge patch": 9, "strategic patch": 9, "apply": 12, "delete": 4,
    "deletecollection": 1, "get": 2, "list": 6, "update status": 3, "patch status": 3, "update scale": 2,
    "patch scale": 1,
}  # fmt: skip
OPTIONS = {
    "dryRun": ("All", "All", "All", "", "none"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "", "strict"),
    "fieldManager": ("me", "you", "kubectl", "", "m" * 129, "a\x01b"),
    "force": ("true", "false", "x"),
    "pretty": ("true",),
}
LIST_OPTIONS = {
    "labelSelector": ("app=x", "app!=x", "app in (x,y)", "!app", "app", "a=(", "a in ()", "a>1", "=", "a b=c"),
    "fieldSelector": (
        "metadata.name=fuzz-a", "metadata.namespace=fuzz", "metadata.name!=fuzz-a", "spec.type=ClusterIP",
        "type=Opaque", "spec.nodeName=", "status.phase=Pending", "spec.color=red", "nope=1", "metadata.name", "=",
    ),
    "limit": ("1", "0", "-1", "500", "x"),
    "resourceVersion": ("0", "x", "", "-1"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "timeoutSeconds": ("1", "x"),
    "continue": ("x", ""),
}  # fmt: skip
DELETE_OPTIONS: tuple[dict[str, Any], ...] = (
    {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 5}, {"gracePeriodSeconds": -1}, {"gracePeriodSeconds": "x"},
    {"propagationPolicy": "Background"}, {"propagationPolicy": "Foreground"}, {"propagationPolicy": "Orphan"},
    {"propagationPolicy": "x"}, {"orphanDependents": True}, {"orphanDependents": False, "propagationPolicy": "Orphan"},
    {"preconditions": {"uid": UID}}, {"preconditions": {"uid": "x"}}, {"preconditions": {"resourceVersion": VERSION}},
    {"preconditions": {"resourceVersion": "1"}}, {"dryRun": ["All"]}, {"dryRun": ["x"]}, {"unknown": 1},
    {"kind": "DeleteOptions", "apiVersion": "v1"}, {"kind": "Pod"}, {"kind": "DeleteOptions", "apiVersion": "v2"},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """A kind with its seeds, and where it is served."""

    kind: str
    collection: str
    subresources: frozenset[str]
    custom: bool
    seeds: list[dict[str, Any]]

    def path(self, name: str) -> str:
        """Return the path of an object."""
        return f"{self.collection}/{name}"


def seeds() -> list[dict[str, Any]]:
    """Return the valid objects from which the fuzz starts."""
    return [seed for seed in yaml.safe_load_all(SEEDS.read_text()) if seed]


def targets(api: Api, kinds: tuple[str, ...] = ()) -> list[Target]:
    """Return the kinds of the seeds, as the server's discovery describes them; `kinds` selects some."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for seed in seeds():
        if not kinds or seed["kind"] in kinds:
            groups.setdefault((seed["apiVersion"], seed["kind"]), []).append(seed)
    return [_target(api, version, kind, objects) for (version, kind), objects in groups.items()]


def _target(api: Api, version: str, kind: str, objects: list[dict[str, Any]]) -> Target:
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    resources = api.get(root).expect(200)["resources"]
    main = next(resource for resource in resources if resource["kind"] == kind and "/" not in resource["name"])
    parts = frozenset(
        resource["name"].partition("/")[2] for resource in resources if resource["name"].startswith(f"{main['name']}/")
    )
    where = f"{root}/namespaces/{NAMESPACE}" if main["namespaced"] else root
    label = kind if not version.startswith("events") else f"{kind}.events"
    return Target(label, f"{where}/{main['name']}", parts, version.startswith("fuzz."), objects)


class Source:
    """Random requests. A seed and the answers to the requests so far determine the next one."""

    def __init__(self, seed: int, targets: list[Target]) -> None:
        self._random = random.Random(seed)
        self._targets = targets
        self._mutator = Mutator(self._random)

    def next(self, live: dict[str, Any]) -> tuple[Request, dict[str, Any] | None, list[Change]]:
        """Return a request, and the valid object and the changes of which its body consists.

        `live` holds objects of the left server by path: updates start from them.
        """
        pick = self._random.choice
        target = pick(self._targets)
        verb = self._random.choices(list(VERBS), list(VERBS.values()))[0]
        while not self._fits(verb, target):
            verb = self._random.choices(list(VERBS), list(VERBS.values()))[0]
        name = pick(NAMES)
        seed = copy.deepcopy(pick(target.seeds))
        seed["metadata"]["name"] = name
        if "namespace" in seed["metadata"]:
            seed["metadata"]["namespace"] = NAMESPACE
        if verb in ("get", "list", "delete", "deletecollection"):
            return self._bodiless(verb, target, name), None, []
        base = seed
        current = live.get(target.path(name))
        if verb not in ("create", "apply") and current is not None and self._random.random() < 0.6:
            base = current
        count = self._random.choices((0, 1, 2, 3), (20, 50, 20, 10))[0]
        changes = self._mutator.changes(base, target.seeds, count)
        return self._written(verb, target, name, base, changes), base, changes

    def _fits(self, verb: str, target: Target) -> bool:
        part = verb.rpartition(" ")[2]
        if part in ("status", "scale") and part not in target.subresources:
            return False
        return verb != "strategic patch" or not target.custom or self._random.random() < 0.02

    def _bodiless(self, verb: str, target: Target, name: str) -> Request:
        pick = self._random.choice
        if verb == "get":
            return Request(
                verb, target.kind, "GET", target.path(pick((name, "no-such", "A_"))), self._some(LIST_OPTIONS, 0.1)
            )
        if verb == "list":
            return Request(verb, target.kind, "GET", target.collection, self._some(LIST_OPTIONS, 0.35))
        body = pick(DELETE_OPTIONS) if self._random.random() < 0.5 else None
        if verb == "deletecollection":
            query = self._some({key: LIST_OPTIONS[key] for key in ("labelSelector", "fieldSelector")}, 0.6)
            if body and "preconditions" in body:
                body = None
            return Request(verb, target.kind, "DELETE", target.collection, query, JSON if body else "", body)
        query = self._some({"dryRun": OPTIONS["dryRun"], "gracePeriodSeconds": ("0", "1", "-1", "x")}, 0.15)
        query |= self._some({"propagationPolicy": ("Background", "Orphan", "x")}, 0.15)
        return Request(verb, target.kind, "DELETE", target.path(name), query, JSON if body else "", body)

    def _written(self, verb: str, target: Target, name: str, base: dict[str, Any], changes: list[Change]) -> Request:
        query = self._some(OPTIONS, 0.12)
        if verb == "apply":
            query.setdefault("fieldManager", self._random.choice(("me", "you")))
            if self._random.random() < 0.4:
                query["force"] = "true"
        elif self._random.random() < 0.95:
            query.pop("force", None)
        part = verb.rpartition(" ")[2] if verb.endswith((" status", " scale")) else ""
        if part == "scale":
            base = _scale(name)
            changes = self._mutator.changes(base, [_scale(name)], min(1, len(changes)))
        path = target.path(name) + (f"/{part}" if part else "")
        method, media = {
            "create": ("POST", JSON), "apply": ("PATCH", APPLY), "json patch": ("PATCH", JSON_PATCH),
            "strategic patch": ("PATCH", STRATEGIC),
        }.get(verb, ("PUT", JSON) if verb.startswith("update") else ("PATCH", MERGE))  # fmt: skip
        if verb == "create":
            path = target.collection
        request = Request(verb, target.kind, method, path, query, media)
        return with_body(request, base, changes, self._random.random())

    def _some(self, options: dict[str, tuple[str, ...]], share: float) -> dict[str, str]:
        return {key: self._random.choice(values) for key, values in options.items() if self._random.random() < share}


def _scale(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name, "resourceVersion": VERSION},
        "spec": {"replicas": 2},
    }


def with_body(request: Request, base: dict[str, Any], changes: list[Change], chance: float = 0.0) -> Request:
    """Return the request with the body that a base and changes make for its verb; `chance` chooses its version."""
    body: Any
    if request.verb == "json patch":
        body = [change.operation() for change in changes] or [{"op": "test", "path": "/kind", "value": base["kind"]}]
    elif request.media in (MERGE, STRATEGIC):
        body = _partial(base, changes) if changes else {"metadata": {"labels": {"patched": "yes"}}}
    else:
        body = applied(changes, base)
        if base["kind"] == "Pod" and type(body) is dict and type(body.get("spec")) is dict:
            # The real server of the tests has no admission of service accounts, which sets a missing one.
            body["spec"]["serviceAccountName"] = body["spec"].get("serviceAccountName") or "default"
        metadata = body.get("metadata") if type(body) is dict else None
        if type(metadata) is dict and not any(change.path[:1] == ("metadata",) for change in changes):
            _adjust(request.verb, metadata, chance)
    return Request(request.verb, request.kind, request.method, request.path, request.query, request.media, body)


def _adjust(verb: str, metadata: dict[str, Any], chance: float) -> None:
    """Remove what the server owns, and choose whether an update names its version."""
    for name in ("uid", "managedFields", "creationTimestamp", "generation", "resourceVersion"):
        metadata.pop(name, None)
    if verb.startswith("update"):
        if chance < 0.7:
            metadata["resourceVersion"] = VERSION
        elif chance < 0.75:
            metadata["resourceVersion"] = "1"
        if chance < 0.1:
            metadata["uid"] = UID


def _partial(base: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    """Return a merge patch that holds only the changed members, lists in whole."""
    target = applied(changes, base)
    patch: dict[str, Any] = {}
    for change in changes:
        here, there, path = patch, target, list(change.path)
        while path:
            key = path.pop(0)
            if type(there) is not dict or key not in there:
                here[str(key)] = None
                break
            inner = there[key]
            if type(inner) is not dict or not path:
                here[str(key)] = inner
                break
            if type(here.get(str(key))) is not dict:
                here[str(key)] = {}
            here, there = here[str(key)], inner
    return copy.deepcopy(patch)


__all__ = ["Source", "Target", "seeds", "targets", "value_at", "with_body"]
