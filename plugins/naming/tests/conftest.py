"""A fake cluster in memory, with the plugin's pure parts as its naming controller."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import ctrlhost_naming
import pytest
from ctrlhost_naming.crd import Crd
from ctrlhost_naming.decision import Mode, decide, status_patch
from ctrlhost_naming.index import NameIndex, Requeues
from ctrlhost_sandbox import Sandbox
from ctrlhost_sandbox.controllers.crds import CrdController

from ctrlhost.testing import ManualClock
from plugins.naming.tests.cluster import Cluster

SPELLED = re.compile(
    r"(?P<plural>[^/\[]*)/?(?P<singular>[^/\[]*)/?(?P<kind>[^/\[]*)/?(?P<list>[^/\[]*)(\[(?P<short>.*)\])?"
)


def names(spelled: str) -> dict[str, Any]:
    """Read `as/a/A/AList[x, y]`; missing names are derived from the plural."""
    match = SPELLED.fullmatch(spelled)
    assert match, spelled
    plural = match["plural"]
    singular = match["singular"] or plural.removesuffix("s")
    kind = match["kind"] or singular.capitalize()
    short = [s.strip() for s in (match["short"] or "").split(",") if s.strip()]
    return {
        "plural": plural,
        "singular": singular,
        "kind": kind,
        "listKind": match["list"] or f"{kind}List",
        **({"shortNames": short} if short else {}),
    }


def spell(raw: dict[str, Any] | None) -> str:
    """Return names as `as/a/A/AList[x, y]`, without brackets if there are no short names."""
    raw = raw or {}
    text = "/".join(raw.get(key) or "" for key in ("plural", "singular", "kind", "listKind"))
    return text + (f"[{', '.join(raw['shortNames'])}]" if raw.get("shortNames") else "")


def crd(spelled: str, group: str = "g.io", **extra: Any) -> dict[str, Any]:
    """Build a CustomResourceDefinition that an API server accepts."""
    wanted = names(spelled)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{wanted['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": wanted,
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
            **extra,
        },
    }


class FakeCluster:
    """CRDs with resource versions, a work queue without duplicates, and one worker that the test runs."""

    def __init__(self, mode: Mode = Mode.ENFORCE, *, allow_own: bool = False, requeue_all: bool = False) -> None:
        self.mode, self.allow_own, self.requeue_all = mode, allow_own, requeue_all
        self.objects: dict[str, dict[str, Any]] = {}
        self.index = NameIndex()
        self.clock = ManualClock()
        self.queue: dict[str, None] = {}
        self.version = self.uids = self.writes = self.syncs = self.calculations = 0
        self.requeued: list[tuple[str, str]] = []
        self.written: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.frozen = False
        """The informer shows nothing new: events are held back."""
        self.kept_back: list[tuple[str, dict[str, Any] | None]] = []

    def key(self, plural: str, group: str = "g.io") -> str:
        return f"{plural}.{group}"

    def create(self, spelled: str, group: str = "g.io", *, created: int | None = None, **extra: Any) -> None:
        obj = crd(spelled, group, **extra)
        self.uids += 1
        obj["metadata"] |= {"uid": f"u{self.uids}", "creationTimestamp": f"2026-01-01T00:00:{created or 0:02d}Z"}
        obj["status"] = {"storedVersions": ["v1"]}
        self._store(obj)

    def edit(self, plural: str, group: str = "g.io", **changed: Any) -> None:
        obj = copy.deepcopy(self.objects[self.key(plural, group)])
        obj["spec"]["names"].update(changed)
        self._store(obj)

    def edit_status(self, plural: str, group: str = "g.io", **changed: Any) -> None:
        obj = copy.deepcopy(self.objects[self.key(plural, group)])
        obj["status"].update(changed)
        self._store(obj)

    def establish(self, plural: str, group: str = "g.io") -> None:
        """Act as the establishing controller."""
        obj = copy.deepcopy(self.objects[self.key(plural, group)])
        for condition in obj["status"]["conditions"]:
            if condition["type"] == "Established":
                condition |= {"status": "True", "reason": "InitialNamesAccepted"}
        self._store(obj)

    def terminate(self, plural: str, group: str = "g.io") -> None:
        """Mark it for deletion; a finalizer keeps it."""
        obj = copy.deepcopy(self.objects[self.key(plural, group)])
        obj["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
        self._store(obj)

    def delete(self, plural: str, group: str = "g.io") -> None:
        del self.objects[self.key(plural, group)]
        self._deliver(self.key(plural, group), None)

    def accepted(self, plural: str, group: str = "g.io") -> str:
        return spell(self.objects[self.key(plural, group)]["status"].get("acceptedNames"))

    def condition(self, plural: str, type_: str, group: str = "g.io") -> tuple[str, ...] | None:
        for raw in self.objects[self.key(plural, group)]["status"].get("conditions", ()):
            if raw["type"] == type_:
                return raw["status"], raw["reason"], raw["message"]
        return None

    def conflict(self, plural: str, group: str = "g.io") -> str:
        """Return reason and message of a NamesAccepted that is False, empty if it is True."""
        found = self.condition(plural, "NamesAccepted", group)
        assert found, plural
        return "" if found[0] == "True" else f"{found[1]} {found[2]}"

    def established(self, plural: str, group: str = "g.io") -> str:
        found = self.condition(plural, "Established", group)
        return f"{found[0]}/{found[1]}" if found else ""

    def settle(self) -> None:
        """Run the worker until nothing is queued."""
        while self.queue:
            key = next(iter(self.queue))
            del self.queue[key]
            self.sync(key)

    def sync(self, key: str) -> None:
        """Act as the plugin's reconciler for one key."""
        self.syncs += 1
        obj = self.objects.get(key)
        if obj is None:
            self._requeue(key, self.index.forget(key))
            return
        known = Crd.of(obj)
        self._requeue(key, self.index.observe(known, cached=True))
        decision = decide(known, self.index.used(known, allow_own=self.allow_own), self.mode)
        self.calculations += decision.calculation is not None
        if not decision.write:
            return
        assert decision.calculation
        changes = (decision.calculation.names_accepted, decision.calculation.established)
        patch = status_patch(obj, changes, self.clock, decision.calculation.accepted)
        obj = copy.deepcopy(obj)
        obj["status"].update(patch["status"])
        self.writes += 1
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.clock.advance(1)
        self.written.append((self.objects[key], obj))
        self.objects[key] = obj
        self._requeue(key, self.index.record_write(Crd.of(obj)))
        self._deliver(key, obj)

    def thaw(self) -> None:
        """Wait until the informer has caught up."""
        self.frozen = False
        events, self.kept_back = self.kept_back, []
        for key, obj in events:
            self._deliver(key, obj)

    def _store(self, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[obj["metadata"]["name"]] = obj
        self._deliver(obj["metadata"]["name"], obj)

    def _deliver(self, key: str, obj: dict[str, Any] | None) -> None:
        """Pass an event to the index, like the informer's handler, and enqueue the object."""
        if self.frozen:
            self.kept_back.append((key, obj))
            return
        if self.requeue_all and key.partition(".")[2]:
            group = key.partition(".")[2]
            others = sorted(k for k in self.objects if k.partition(".")[2] == group and k != key)
        else:
            others = []
        self._requeue(key, self.index.observe(Crd.of(obj)) if obj else self.index.forget(key))
        self.queue.setdefault(key)
        for other in sorted(others, key=lambda k: (self.objects[k]["metadata"]["creationTimestamp"], k)):
            self.queue.setdefault(other)

    def _requeue(self, key: str, requeues: Requeues) -> None:
        assert key not in dict(requeues)
        self.requeued += requeues
        for other, _ in requeues:
            self.queue.setdefault(other)


@pytest.fixture
def fake() -> FakeCluster:
    """A fake cluster in mode enforce."""
    return FakeCluster()


@pytest.fixture
def new_fake() -> Callable[..., FakeCluster]:
    """The type of fake clusters, for other options."""
    return FakeCluster


@pytest.fixture(name="spell")
def spell_fixture() -> Callable[..., str]:
    """The function that spells names like the tests."""
    return spell


@pytest.fixture
def new_crd() -> Callable[..., dict[str, Any]]:
    """The builder of CustomResourceDefinitions from their spelling."""
    return crd


@pytest.fixture
def external(ctrlhost_least_privilege: bool, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A server without its own naming controller, and without the step that establishes CRDs."""
    advance = CrdController._advance

    def clean_up_only(controller: CrdController, crd: Any) -> None:
        if "deletionTimestamp" in crd["metadata"]:
            advance(controller, crd)

    monkeypatch.setattr(CrdController, "_advance", clean_up_only)
    with Sandbox(crd_conditions="external", rbac=ctrlhost_least_privilege) as server:
        yield server


@pytest.fixture
def start(
    ctrlhost_host: Any, manual_clock: Any, new_crd: Callable[..., dict[str, Any]], spell: Callable[..., str]
) -> Callable[..., Cluster]:
    """Start a host with the plugin; keywords are its settings."""

    def start_cluster(sandbox: Sandbox, *, run: bool = True, **settings: Any) -> Cluster:
        host = ctrlhost_host(
            ctrlhost_naming, clock=manual_clock, sandbox=sandbox, settings={"naming": settings}, start=run
        )
        return Cluster(host, new_crd, spell)

    return start_cluster


@pytest.fixture
def cluster(start: Callable[..., Cluster], external: Sandbox) -> Cluster:
    """The plugin as the naming controller of its server."""
    return start(external, mode="enforce")
