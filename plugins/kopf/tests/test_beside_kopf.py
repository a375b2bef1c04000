"""The same operator under the installed kopf and here, on the same script of changes: the same calls."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ctrlhost_kopf
import pytest
from ctrlhost_kopf.plugin import Operator

from ctrlhost import NotFound
from plugins.kopf.tests import recorder
from plugins.kopf.tests.examples import CRD, KIND, example
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
behaviour = pytest.mark.behaviour
_names = itertools.count()


class Side:
    """An operator that can be started and stopped, and its calls for the objects of one test."""

    def __init__(self, name: str, namespace: str, control_plane: Any, calls: Path, storage: str, host: Any) -> None:
        self.name, self.namespace, self.server, self.calls = name, namespace, control_plane, calls
        self.storage, self._host = storage, host
        self.client = control_plane.client

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the operator, until all that it does at the start has ended."""
        with self._kopf() if self.name == "kopf" else self._ours():
            probe = f"probe-{next(_names)}"
            # Once this is handled, all that was there before has been listed.
            self.client.create(example(probe, namespace=self.namespace))
            self.settle(probe)
            yield
            self.client.delete(*KIND, probe, self.namespace)
            eventually(lambda: self.client.find(*KIND, probe, self.namespace) is None)

    @contextmanager
    def _kopf(self) -> Iterator[None]:
        command = [sys.executable, "-m", "plugins.kopf.tests.recorder", str(self.calls), self.storage, self.namespace]
        environment = {**os.environ, "KUBECONFIG": str(self.server.kubeconfig)}
        with (self.calls.parent / "kopf.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    @contextmanager
    def _ours(self) -> Iterator[None]:
        registry = ctrlhost_kopf.OperatorRegistry()
        recorder.define(ctrlhost_kopf, registry, self.calls, self.storage)
        host = self._host(Operator(registry, "recorder"), server=self.server, namespaces=(self.namespace,), start=False)
        host.start(check=True)
        try:
            yield
        finally:
            host.stop()

    def settle(self, name: str) -> None:
        """Wait until an object is handled: its configuration is the last handled one, and no handler is under way."""
        eventually(lambda: self._settled(name), 60, f"{self.name}: {name} is handled", pause=0.02)

    def _settled(self, name: str) -> bool:
        body = self.client.find(*KIND, name, self.namespace)
        if body is None:
            return True
        if body["metadata"].get("deletionTimestamp"):
            return False
        base, progress = recorder.storages(ctrlhost_kopf, self.storage)
        view = ctrlhost_kopf.Body(body)
        fields = [("spec", "a"), ("status", "x")]
        new = progress.clear(essence=base.build(body=view, extra_fields=fields))
        old = base.fetch(body=view)
        text = json.dumps(body)
        return old is not None and progress.clear(essence=old) == new and '\\"purpose\\"' not in text

    def resume(self, name: str) -> None:
        """Wait until an object is resumed."""
        eventually(lambda: {"resume", "resume-deleted"} <= {call["handler"] for call in self.of(name)}, 60, pause=0.02)
        self.settle(name)

    def create(self, name: str, **fields: Any) -> None:
        self.client.create(example(name, namespace=self.namespace, **fields))
        self.settle(name)

    def patch(self, name: str, patch: dict[str, Any], *, wait: bool = True) -> None:
        status = "status" if set(patch) == {"status"} else None
        self.client.patch(*KIND, name, self.namespace, patch, subresource=status)
        if wait:
            self.settle(name)

    def delete(self, name: str) -> None:
        self.client.delete(*KIND, name, self.namespace)
        self.settle(name)

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the calls for an object; those that ran one after the other in any order are sorted."""
        return sorted(recorder.calls_of(self.calls, name), key=lambda call: json.dumps(call, sort_keys=True))


@pytest.fixture
def side(control_plane: Any, namespace: str, tmp_path: Path, ctrlhost_host: Any) -> Callable[..., Side]:
    """Return a function that prepares an operator: `kopf` or `ours`."""
    control_plane.client.apply(CRD)

    def served() -> bool:
        try:
            return control_plane.client.find(*KIND, "any", namespace) is None
        except NotFound:
            return False

    eventually(served)

    def prepare(name: str, storage: str = "default", calls: str = "") -> Side:
        folder = tmp_path / (calls or name)
        folder.mkdir(exist_ok=True)
        return Side(name, namespace, control_plane, folder / "calls", storage, ctrlhost_host)

    return prepare


def script(side: Side, name: str) -> None:
    """Create, change, restart, change in the downtime, and delete an object."""
    with side.running():
        side.create(name, labels={"a": "1"}, a=1, b={"c": [1]})
        side.patch(name, {"spec": {"a": 2}})
        side.patch(name, {"spec": {"b": {"c": [1, 2]}}, "metadata": {"labels": {"x": "y"}}})
        side.patch(name, {"status": {"x": 1}})
        side.patch(name, {"spec": {"a": None}})
    with side.running():
        side.resume(name)
    side.patch(name, {"spec": {"a": 3}}, wait=False)
    with side.running():
        side.settle(name)
        side.patch(name, {"spec": {"d": 1}})
        side.delete(name)


def new_calls(calls: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted({(call["handler"], call["reason"]) for call in calls})


@behaviour("kopf/KO1")
def test_the_calls_are_those_of_kopf(side: Callable[..., Side]) -> None:
    theirs, ours = side("kopf"), side("ours")
    name = f"ex-{next(_names)}"
    script(theirs, name)
    script(ours, name)
    wanted, calls = theirs.of(name), ours.of(name)
    assert calls == wanted
    handlers = {call["handler"] for call in wanted}
    assert handlers >= {"create", "retried", "odd", "permanent", "limited", "labelled", "valued", "update", "changed"}
    assert handlers >= {"resume", "delete", "field", "status", "child"}


@behaviour("kopf/KO2")
@pytest.mark.parametrize(
    "storage", [recorder.STORAGES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in recorder.STORAGES[1:])]
)
def test_a_move_in_either_direction_calls_nothing_twice(side: Callable[..., Side], storage: str) -> None:
    name = f"ex-{next(_names)}"
    kopf, ours = side("kopf", storage, "both"), side("ours", storage, "both")
    with kopf.running():
        kopf.create(name, a=1)
    known = len(kopf.of(name))
    assert known
    before = kopf.client.get(*KIND, name, kopf.namespace)
    for side_now in (ours, kopf):
        calls = recorder.calls_of(side_now.calls, name)
        with side_now.running():
            side_now.settle(name)
            eventually(lambda calls=calls: len(recorder.calls_of(kopf.calls, name)) >= len(calls) + 2, pause=0.02)
        added = recorder.calls_of(side_now.calls, name)[len(calls) :]
        # Resumed once, and nothing else.
        assert new_calls(added) == [("resume", "resume"), ("resume-deleted", "resume")]
        assert len(added) == 2
        assert side_now.client.get(*KIND, name, kopf.namespace)["spec"] == before["spec"]
    with ours.running():
        ours.settle(name)
        ours.patch(name, {"spec": {"a": 2}})
        ours.delete(name)
    assert ours.client.find(*KIND, name, ours.namespace) is None
