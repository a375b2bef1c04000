"""A fake cluster in memory, which runs the plugin's own reconciler and map."""

from __future__ import annotations

import copy
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import ctrlhost_naming
import pytest
from ctrlhost_naming.crd import CRDS, Crd, Field
from ctrlhost_naming.decision import Mode
from ctrlhost_sandbox import Sandbox
from ctrlhost_sandbox.controllers.crds import CrdController
from prometheus_client import CollectorRegistry

from ctrlhost import Object, Request
from ctrlhost.controller.status import StatusWriter
from ctrlhost.controller.status_shape import shape_of
from ctrlhost.testing import ManualClock
from plugins.naming.tests.cluster import Cluster

SHAPE = shape_of("naming", CRDS.api_version, CRDS.kind, Crd, [])
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
    """CRDs, their cache with its indexes, a work queue without duplicates, and one worker that the test runs."""

    def __init__(self, mode: Mode = Mode.ENFORCE, *, allow_own: bool = False, requeue_all: bool = False) -> None:
        self.requeue_all = requeue_all
        self.settings = ctrlhost_naming.NamingSettings(mode=mode, allow_own_names=allow_own)
        self.objects: dict[str, dict[str, Any]] = {}
        self.clock = ManualClock()
        self.state = ctrlhost_naming.Naming(self.settings, CollectorRegistry(), self.clock)
        self.queue: dict[str, None] = {}
        self.version = self.uids = self.writes = self.syncs = 0
        self.requeued: list[str] = []
        self.written: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._objects: dict[str, Object] = {}
        self._crds: dict[str, Crd] = {}
        self._indexes: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)

    def __getitem__(self, kind: type[Crd] | str) -> Any:
        """Return the cache, of structs or of objects, as `Caches` does."""
        objects = self._crds if kind is Crd else self._objects
        return SimpleNamespace(
            get=objects.get, by_index=lambda index, value: [objects[name] for name in self._indexes[index, value]]
        )

    def get(self, plural: str, group: str = "g.io") -> Crd:
        return self._crds[self.key(plural, group)]

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
        condition = self.condition(plural, "NamesAccepted", group)
        assert condition, plural
        return "" if condition[0] == "True" else f"{condition[1]} {condition[2]}"

    def established(self, plural: str, group: str = "g.io") -> str:
        condition = self.condition(plural, "Established", group)
        return f"{condition[0]}/{condition[1]}" if condition else ""

    def showing(self, other: FakeCluster) -> FakeCluster:
        """Start with the CRDs of another cluster."""
        self.version = other.version
        for obj in other.objects.values():
            self._store(obj)
        return self

    def settle(self) -> None:
        """Run the worker until nothing is queued."""
        while self.queue:
            key = next(iter(self.queue))
            del self.queue[key]
            self.sync(key)

    def sync(self, key: str) -> None:
        """Run the plugin's reconciler for one key, and write the status that it has set."""
        self.syncs += 1
        obj = self.objects.get(key)
        writer = StatusWriter(SHAPE, Object(obj), self.clock) if obj else None
        context: Any = SimpleNamespace(
            request=Request(key),
            settings=self.settings,
            state=self.state,
            clock=self.clock,
            log=logging.getLogger("naming"),
            attempt=1,
            cache=self.__getitem__,
            status=writer,
            event=lambda *_, **__: True,
        )
        ctrlhost_naming.arbitrate(context, self._crds.get(key))
        patch = writer.patch(Object(obj)) if writer and obj else None
        if obj is None or patch is None:
            return
        changed = copy.deepcopy(obj)
        names, before = patch["status"].get("acceptedNames", {}), changed["status"].pop("acceptedNames", {})
        changed["status"] |= patch["status"]
        after = {name: value for name, value in (before | names).items() if value is not None}
        changed["status"]["acceptedNames"] = after
        self.writes += 1
        self.clock.advance(1)
        self._store(changed)
        self.written.append((obj, self.objects[key]))

    def _store(self, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[obj["metadata"]["name"]] = obj
        self._deliver(obj["metadata"]["name"], obj)

    def _deliver(self, key: str, obj: dict[str, Any] | None) -> None:
        """Show a change in the cache, and enqueue what the plugin's map returns, and the object."""
        old, new = self._crds.pop(key, None), Object(obj).decode(Crd) if obj else None
        before, after = self._objects.pop(key, None), Object(obj) if obj else None
        if old is not None:
            for entry in _entries(old):
                del self._indexes[entry][key]
        if new is not None and after is not None:
            self._crds[key], self._objects[key] = new, after
            for entry in _entries(new):
                self._indexes[entry][key] = None
        if ctrlhost_naming.names_changed(before, after):
            caches: Any = self
            waiting = [r.name for crd in (old, new) if crd for r in ctrlhost_naming.requesters(crd, caches)]
            assert key not in waiting
            self.requeued += waiting
            self.queue |= dict.fromkeys(waiting)
        self.queue.setdefault(key)
        if self.requeue_all:
            group = key.partition(".")[2]
            others = sorted(self._crds.values(), key=lambda crd: (crd.metadata.creationTimestamp, crd.name))
            self.queue |= dict.fromkeys(crd.name for crd in others if crd.group == group)


def _entries(crd: Crd) -> list[tuple[str, str]]:
    """Return the entries of a CRD in the indexes."""
    return [
        *((field.requested, name) for field in Field for name in set(crd.requested.in_field(field))),
        *((field.accepted, name) for field in Field for name in set(crd.accepted.in_field(field))),
    ]


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
