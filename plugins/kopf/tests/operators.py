"""Operators written for kopf, as files, and the calls that they record."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from ctrlhost import Client
from ctrlhost.supervisor.foreign import ForeignPlugin
from tests.support.waiting import eventually

GROUP, VERSION, KIND, PLURAL = "kopf.dev", "v1", "KopfExample", "kopfexamples"
API_VERSION = f"{GROUP}/{VERSION}"

#: What each operator can use: it writes a line for each call.
RECORD = """
import asyncio, json, os, pathlib, threading, time

def record(*call):
    with open({calls!r}, "a") as file:
        file.write(json.dumps([*call], default=str) + "\\n")
"""


def crd(plural: str = PLURAL, kind: str = KIND) -> dict[str, Any]:
    """Return a CRD of the group of kopf's examples, with any fields."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {"name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


def install(client: Client, *crds: dict[str, Any]) -> None:
    """Create CRDs, and wait until their kinds are served."""
    for definition in crds or (crd(),):
        client.apply(definition)
        names, group = definition["spec"]["names"], definition["spec"]["group"]

        def served(kind: str = names["kind"], group: str = group) -> bool:
            try:
                client.list(f"{group}/{VERSION}", kind)
            except Exception:  # noqa: BLE001 - not served yet
                return False
            return True

        eventually(served)


def example(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    """Return an object; `labels` and `spec` are those of the object."""
    metadata = {"name": name, "namespace": namespace, "labels": more.pop("labels", {})}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {}, **more}


class Calls:
    """What the operators of one test have recorded."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "calls.jsonl"
        self.file.touch()

    @property
    def all(self) -> list[list[Any]]:
        """The calls, in their order."""
        return [json.loads(line) for line in self.file.read_text().splitlines() if line.endswith("]")]

    def of(self, *beginning: Any) -> list[list[Any]]:
        """Return the calls that begin like this."""
        return [call for call in self.all if call[: len(beginning)] == [*beginning]]

    def wait(self, *beginning: Any, count: int = 1) -> list[list[Any]]:
        """Wait for so many calls that begin like this, and return them."""
        calls: list[list[Any]] = eventually(
            lambda: len(seen := self.of(*beginning)) >= count and seen,
            what=f"{count} calls {beginning}, got {self.all[-20:]}",
            pause=0.01,
        )
        return calls


def operator(folder: Path, name: str, source: str, calls: Calls) -> Path:
    """Write the file of an operator, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(RECORD.format(calls=str(calls.file)) + textwrap.dedent(source))
    return path


def foreign(path: Path) -> ForeignPlugin:
    """Return what a host takes as the plugin in a file."""
    return ForeignPlugin("kopf", str(path))
