"""A kopf operator, which the test runs as a process; each handler records its calls."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import kopf

GROUP = os.environ["TEST_GROUP"]
LOG = Path(os.environ["TEST_LOG"])


def record(handler: str, **what: Any) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"handler": handler, **what}) + "\n")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True
    settings.persistence.finalizer = "example.org/kopf"


@kopf.on.create(GROUP, "v1", "parts")
def created(spec: kopf.Spec, name: str, **_: Any) -> dict[str, Any]:
    record("create", name=name, size=spec["size"])
    return {"size": spec["size"]}


@kopf.on.update(GROUP, "v1", "parts", field="spec.size")
def updated(old: int, new: int, name: str, patch: kopf.Patch, **_: Any) -> None:
    record("update", name=name, old=old, new=new)
    patch.status["seen"] = new


@kopf.on.delete(GROUP, "v1", "parts")
def deleted(name: str, **_: Any) -> None:
    record("delete", name=name)


@kopf.timer(GROUP, "v1", "parts", interval=0.2, labels={"timed": "yes"})
def ticked(name: str, **_: Any) -> None:
    record("timer", name=name)
