"""kopf's examples, rebuilt, under the installed kopf and here: the same calls and the same end states."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ctrlhost_kopf
import pytest
from ctrlhost_kopf.plugin import Operator

from ctrlhost import NotFound
from plugins.kopf.tests import gallery
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
API_VERSION = f"{gallery.GROUP}/v1"
#: The status by which an example has ended, for those whose progress does not show it.
ENDS: dict[str, dict[str, Any]] = {
    "minimal": {"create_fn": {"message": "hello value"}},
    "children": {"create_fn": {"children": 1}},
    "exceptions": {"eventual": "succeeded"},
    "events": {"seen": "value"},
    "hooks": {"locked": "ex"},
    "daemons": {"message": "ended with value"},
    "timers": {"sync": True, "async": True},
    "indexing": {"labels": ["somelabel=somevalue:1"]},
}
#: How often these are called depends on the time that the test takes.
TICKING = ("timers", "indexing")


@contextmanager
def under_kopf(control_plane: Any, namespace: str, calls: Path) -> Iterator[None]:
    """Run the gallery under the installed kopf."""
    command = [sys.executable, "-m", "plugins.kopf.tests.gallery", str(calls), namespace]
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
    with calls.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def act(client: Any, namespace: str) -> dict[str, Any]:
    """Create an object of each example, change it and delete it; return its states before the deletion."""
    for name in gallery.GALLERY:
        labels, annotations = {"somelabel": "somevalue"}, {"someannotation": "somevalue"}
        metadata = {"name": "ex", "namespace": namespace, "labels": labels, "annotations": annotations}
        spec = {"field": "value", "items": ["item1", "item2"]}
        client.create({"apiVersion": API_VERSION, "kind": gallery.kind_of(name), "metadata": metadata, "spec": spec})

    def get(name: str) -> dict[str, Any]:
        obj: dict[str, Any] = client.get(API_VERSION, gallery.kind_of(name), "ex", namespace)
        return obj

    def handled(name: str, field: str) -> bool:
        obj, wanted = get(name), ENDS.get(name, {})
        annotations = obj["metadata"]["annotations"]
        status = obj.get("status", {})
        if any(status.get(key) != value for key, value in wanted.items()) or '\\"purpose\\"' in json.dumps(obj):
            return False
        last = json.loads(annotations.get("kopf.zalando.org/last-handled-configuration", "null"))
        return last["spec"]["field"] == field if last else name in ENDS

    for name in gallery.GALLERY:
        eventually(lambda name=name: handled(name, "value"), 60, f"{name} is handled", pause=0.02)
    for name in ("handlers", "filters"):
        client.patch(API_VERSION, gallery.kind_of(name), "ex", namespace, {"spec": {"field": "changed"}})
        eventually(lambda name=name: handled(name, "changed"), 60, f"{name} is handled again", pause=0.02)
    states = {name: end_state(get(name)) for name in gallery.GALLERY}
    for name in gallery.GALLERY:
        client.delete(API_VERSION, gallery.kind_of(name), "ex", namespace)
    for name in gallery.GALLERY:
        gone = (API_VERSION, gallery.kind_of(name), "ex", namespace)
        eventually(lambda gone=gone: client.find(*gone) is None, 60, f"{name} is gone", pause=0.02)
    # They are written beside the handlers.
    eventually(lambda: len(posted(client, namespace)) == 3, 60, "three events", pause=0.02)
    states["posted"] = posted(client, namespace)
    for pod in list(client.list("v1", "Pod", namespace)):
        client.delete("v1", "Pod", pod["metadata"]["name"], namespace, grace_period_seconds=0)
    return states


def posted(client: Any, namespace: str) -> list[tuple[str, str]]:
    """Return reason and note of each event of the example that posts some."""
    events = client.list("events.k8s.io/v1", "Event", namespace)
    ours = (event for event in events if event["regarding"]["kind"] == gallery.kind_of("posting"))
    return sorted({(event["reason"], event["note"]) for event in ours})


def end_state(obj: dict[str, Any]) -> dict[str, Any]:
    """Return what handlers have made of an object."""
    metadata = obj["metadata"]
    annotations = {key: value for key, value in metadata["annotations"].items() if "touch" not in key}
    last = annotations.pop("kopf.zalando.org/last-handled-configuration", None)
    return {
        "labels": metadata["labels"],
        "annotations": annotations,
        "last": last and json.loads(last),
        "finalizers": metadata.get("finalizers", []),
        "spec": obj["spec"],
        "status": obj.get("status", {}),
    }


def calls_of(path: Path) -> Counter[str]:
    """Return the calls with their numbers, but for those that repeat in time."""
    return Counter(line for line in path.read_text().splitlines() if json.loads(line)[0] not in TICKING)


@pytest.mark.behaviour("kopf/KO14")
@pytest.mark.parametrize(
    "control_plane", ["sandbox", pytest.param("kube-apiserver", marks=pytest.mark.slow)], indirect=True
)
def test_the_examples_of_kopf_end_as_under_kopf(
    control_plane: Any,
    namespace: str,
    tmp_path: Path,
    ctrlhost_host: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = control_plane.client
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    for definition in gallery.crds():
        client.apply(definition)

    def served() -> bool:
        try:
            return all(client.find(API_VERSION, gallery.kind_of(n), "ex", namespace) is None for n in gallery.GALLERY)
        except NotFound:
            return False

    eventually(served)
    with under_kopf(control_plane, namespace, tmp_path / "kopf"):
        wanted = act(client, namespace)
    for event in list(client.list("events.k8s.io/v1", "Event", namespace)):
        client.delete("events.k8s.io/v1", "Event", event["metadata"]["name"], namespace)

    registry = ctrlhost_kopf.OperatorRegistry()
    gallery.define(ctrlhost_kopf, registry, tmp_path / "ours")
    host = ctrlhost_host(Operator(registry, "gallery"), server=control_plane, namespaces=(namespace,), start=False)
    host.start(check=True)
    states = act(client, namespace)
    assert states == wanted
    assert calls_of(tmp_path / "ours") == calls_of(tmp_path / "kopf")
