"""An operator with each kind of handler that records its calls, for kopf and for this package.

Run as `python -m plugins.kopf.tests.recorder CALLS STORAGE` it is an operator of the installed kopf.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from plugins.kopf.tests.examples import KIND

#: The storages that an operator can choose, by name.
STORAGES = ("default", "prefixed", "status", "smart", "several")


def storages(kopf: Any, name: str) -> tuple[Any, Any]:
    """Return the diff base storage and the progress storage of a name."""
    match name:
        case "prefixed":
            prefix = "example.com"
            return kopf.AnnotationsDiffBaseStorage(prefix=prefix), kopf.AnnotationsProgressStorage(prefix=prefix)
        case "status":
            return kopf.StatusDiffBaseStorage(name="mine"), kopf.StatusProgressStorage(name="mine")
        case "smart":
            return kopf.AnnotationsDiffBaseStorage(key="last"), kopf.SmartProgressStorage(prefix="kopf.example.com")
        case "several":
            bases = [kopf.AnnotationsDiffBaseStorage(prefix="example.com"), kopf.StatusDiffBaseStorage()]
            progresses = [kopf.AnnotationsProgressStorage(prefix="example.com"), kopf.StatusProgressStorage()]
            return kopf.MultiDiffBaseStorage(bases), kopf.MultiProgressStorage(progresses)
    return kopf.AnnotationsDiffBaseStorage(), kopf.SmartProgressStorage()


def define(kopf: Any, registry: Any, calls: Path, storage: str = "default") -> None:
    """Register the handlers."""

    def note(**call: Any) -> None:
        with calls.open("a") as file:
            file.write(json.dumps(call, default=str, sort_keys=True) + "\n")

    @kopf.on.startup(registry=registry)
    def configure(settings: Any, **_: Any) -> None:
        settings.posting.enabled = False
        settings.persistence.diffbase_storage, settings.persistence.progress_storage = storages(kopf, storage)
        settings.execution.default_backoff = 0.2

    def record(handler: str) -> Any:
        def fn(name: str, reason: Any, retry: int, old: Any, new: Any, diff: Any, **_: Any) -> None:
            changes = sorted([str(op), list(field), before, after] for op, field, before, after in diff)
            note(name=name, handler=handler, reason=str(reason), retry=retry, old=old, new=new, diff=changes)
            if handler == "retried" and retry < 2:
                raise kopf.TemporaryError("again", delay=0.2)
            if handler == "odd" and retry < 1:
                raise ValueError("again")
            if handler == "permanent":
                raise kopf.PermanentError("never")

        return fn

    def add(decorator: str, handler: str, **options: Any) -> None:
        getattr(kopf.on, decorator)(KIND[0], "kopfexamples", registry=registry, id=handler, **options)(record(handler))

    add("create", "create")
    add("create", "retried")
    add("create", "odd")
    add("create", "permanent")
    add("create", "limited", retries=1)
    add("create", "labelled", labels={"a": "1"})
    add("create", "valued", field="spec.a", value=1)
    add("update", "update")
    add("update", "changed", field="spec.a", old=1, new=2)
    add("resume", "resume")
    add("resume", "resume-deleted", deleted=True)
    add("delete", "delete")
    add("delete", "optional", optional=True)
    add("field", "field", field="spec.a")
    add("field", "status", field="status.x")

    @kopf.on.create(KIND[0], "kopfexamples", registry=registry, id="parent")
    def parent(name: str, **_: Any) -> dict[str, bool]:
        @kopf.subhandler(id="child")
        def child(reason: Any, retry: int, **_: Any) -> None:
            note(name=name, handler="child", reason=str(reason), retry=retry)
            if retry < 1:
                raise kopf.TemporaryError("again", delay=0.2)

        return {"parent": True}


def calls_of(path: Path, name: str) -> list[dict[str, Any]]:
    """Return the recorded calls for an object."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [call for call in map(json.loads, lines) if call["name"] == name]


def main() -> None:
    """Run under the installed kopf until SIGTERM."""
    import kopf

    kopf.configure(verbose=True)
    registry = kopf.get_default_registry()
    define(kopf, registry, Path(sys.argv[1]), sys.argv[2])
    kopf.run(registry=registry, namespaces=[sys.argv[3]], standalone=True)


if __name__ == "__main__":
    main()
