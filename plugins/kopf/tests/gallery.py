"""What kopf's examples show, each with a kind of its own, for kopf and for this package.

Run as `python -m plugins.kopf.tests.gallery CALLS NAMESPACE` it is an operator of the installed kopf. Its examples of
peering, embedding and admission are in the tests of running and of webhooks.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plugins.kopf.tests.examples import CRD

GROUP = "gallery.kopf.dev"
Define = Callable[[Any, Any, str, Callable[..., None]], None]
GALLERY: dict[str, Define] = {}


def kind_of(name: str) -> str:
    """Return the kind of an example."""
    return name.capitalize()


def crds() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of the examples."""
    definitions = []
    for name in GALLERY:
        names = {"kind": kind_of(name), "plural": name, "singular": f"one{name}"}
        spec = {**CRD["spec"], "group": GROUP, "names": names}
        definitions.append({**CRD, "metadata": {"name": f"{name}.{GROUP}"}, "spec": spec})
    return definitions


def example(define: Define) -> Define:
    """Add an example to the gallery."""
    GALLERY[define.__name__] = define
    return define


@example
def minimal(kopf: Any, on: Any, kind: str, note: Any) -> None:
    on.create(id="create_fn")(lambda spec, **_: {"message": f"hello {spec['field']}"})


@example
def children(kopf: Any, on: Any, kind: str, note: Any) -> None:
    @on.create(id="create_fn")
    def create_fn(spec: Any, **_: Any) -> Any:
        from kubernetes import client, config

        config.load_kube_config(config_file=os.environ["KUBECONFIG"])
        container = {"name": "only", "image": "busybox", "env": [{"name": "FIELD", "value": spec["field"]}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
        kopf.adopt(pod)
        created = client.CoreV1Api().create_namespaced_pod(pod["metadata"]["namespace"], pod)  # type: ignore[index]
        note(kind, len(created.metadata.owner_references), created.metadata.labels)
        return {"children": 1}


@example
def exceptions(kopf: Any, on: Any, kind: str, note: Any) -> None:
    @on.create(id="instant")
    def instant(**_: Any) -> None:
        note(kind, "instant")
        raise kopf.PermanentError("once and for all")

    @on.create(id="eventual")
    def eventual(retry: int, **_: Any) -> str:
        note(kind, "eventual", retry)
        if retry < 3:
            raise kopf.TemporaryError("expected", delay=0.1)
        return "succeeded"

    @on.create(id="limited", retries=3, backoff=0.1)
    def limited(retry: int, **_: Any) -> None:
        note(kind, "limited", retry)
        raise RuntimeError("odd")

    @on.create(id="strict", errors=kopf.ErrorsMode.PERMANENT, backoff=0.1)
    def strict(**_: Any) -> None:
        note(kind, "strict")
        raise RuntimeError("odd")


@example
def posting(kopf: Any, on: Any, kind: str, note: Any) -> None:
    @on.create(id="create_fn")
    def create_fn(body: Any, **_: Any) -> None:
        kopf.event(body, type="Normal", reason="SomeReason", message="Some message")
        kopf.info(body, reason="SomeReason", message="Some message")
        kopf.warn(body, reason="SomeReason", message="Some warning")
        try:
            raise RuntimeError("text")
        except RuntimeError:
            kopf.exception(body, reason="SomeReason", message="Some exception:")


@example
def handlers(kopf: Any, on: Any, kind: str, note: Any) -> None:
    for name in ("resume", "create", "update", "delete"):
        for number in (1, 2):
            getattr(on, name)(id=f"{name}_fn_{number}")(lambda name=name, number=number, **_: note(kind, name, number))
    on.field(field="spec.field", id="field_fn")(lambda old, new, **_: note(kind, "field", old, new))


@example
def subhandlers(kopf: Any, on: Any, kind: str, note: Any) -> None:
    @on.create(id="create_fn")
    def create_fn(spec: Any, **_: Any) -> None:
        for item in spec["items"]:

            @kopf.subhandler(id=item)
            async def create_item(item: str = item, **_: Any) -> str:
                note(kind, item)
                return item


@example
def events(kopf: Any, on: Any, kind: str, note: Any) -> None:
    @on.event(id="failing")
    def failing(**_: Any) -> None:
        raise RuntimeError("oops")

    on.event(id="normal")(lambda event, patch, **_: patch.status.update(seen=event["object"]["spec"]["field"]))


@example
def filters(kopf: Any, on: Any, kind: str, note: Any) -> None:
    yes = {"labels": {"somelabel": "somevalue"}, "annotations": {"someannotation": "somevalue"}}
    for kind_of_filter, pattern in yes.items():
        ((key, value),) = pattern.items()
        for name, wanted in (
            ("matching", value),
            ("other", "other"),
            ("present", kopf.PRESENT),
            ("absent", kopf.ABSENT),
            ("yes", lambda value, spec, **_: value == "somevalue" and spec.get("field") is not None),
            ("no", lambda value, spec, **_: value == "somevalue" and spec.get("field") == "another"),
        ):
            ident = f"{kind_of_filter}-{name}"
            on.create(id=ident, **{kind_of_filter: {key: wanted}})(lambda ident=ident, **_: note(kind, ident))
    on.create(id="true", when=lambda body, **_: True)(lambda **_: note(kind, "true"))
    on.create(id="false", when=lambda body, **_: False)(lambda **_: note(kind, "false"))
    on.create(id="value", field="spec.field", value="value")(lambda **_: note(kind, "value"))
    on.create(id="else", field="spec.field", value="something-else")(lambda **_: note(kind, "else"))
    on.create(id="there", field="spec.field", value=kopf.PRESENT)(lambda **_: note(kind, "there"))
    on.create(id="missing", field="spec.missing", value=kopf.PRESENT)(lambda **_: note(kind, "missing"))
    on.update(id="changed", field="spec.field", old="value", new="changed")(lambda **_: note(kind, "changed"))


@example
def hooks(kopf: Any, on: Any, kind: str, note: Any) -> None:
    shared: dict[str, Any] = {}

    @on.startup()
    async def first(**_: Any) -> None:
        shared["lock"] = asyncio.Lock()

    @on.startup()
    async def retried(retry: int, **_: Any) -> None:
        note(kind, "startup", retry)
        if retry < 2:
            raise kopf.TemporaryError("again", delay=0.1)

    @on.event(id="locked")
    async def locked(name: str, patch: Any, **_: Any) -> None:
        async with shared["lock"]:
            patch.status["locked"] = name


@example
def daemons(kopf: Any, on: Any, kind: str, note: Any) -> None:
    @on.daemon(backoff=0.1, id="sync_daemon")
    def sync_daemon(stopped: Any, spec: Any, retry: int, patch: Any, **_: Any) -> None:
        note(kind, "sync", retry)
        if retry < 3:
            patch.status["message"] = f"failed {retry + 1} times"
            raise kopf.TemporaryError("again", delay=0.1)
        patch.status["message"] = f"ended with {spec['field']}"

    @on.daemon(id="async_daemon", cancellation_timeout=5, annotations={"someannotation": "somevalue"})
    async def async_daemon(retry: int, **_: Any) -> None:
        note(kind, "async", retry)
        if retry < 2:
            raise kopf.TemporaryError("again", delay=0.1)
        try:
            await asyncio.Event().wait()
        finally:
            note(kind, "async ends")


@example
def timers(kopf: Any, on: Any, kind: str, note: Any) -> None:
    on.timer(id="sync_timer", interval=0.1)(lambda patch, **_: patch.status.update(sync=True))

    @on.timer(id="async_timer", interval=0.1, idle=0.2)
    async def async_timer(patch: Any, **_: Any) -> None:
        patch.status["async"] = True


@example
def indexing(kopf: Any, on: Any, kind: str, note: Any) -> None:
    on.index(id="by_label")(lambda labels, name, **_: dict.fromkeys(labels.items(), name))

    @on.timer(id="look", interval=0.1)
    def look(by_label: Any, patch: Any, **_: Any) -> None:
        patch.status["labels"] = sorted(f"{key}={value}:{len(names)}" for (key, value), names in by_label.items())


class _On:
    """The decorators of `kopf.on` for a kind and a registry."""

    def __init__(self, kopf: Any, registry: Any, kind: str) -> None:
        self._kopf, self._registry, self._kind = kopf, registry, kind

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kinds = () if name == "startup" else (GROUP, self._kind)
        return lambda **options: getattr(self._kopf.on, name)(*kinds, registry=self._registry, **options)


def define(kopf: Any, registry: Any, calls: Path) -> None:
    """Register the handlers of all examples."""

    def note(*call: Any) -> None:
        with calls.open("a") as file:
            file.write(json.dumps(call) + "\n")

    for name, example in GALLERY.items():
        example(kopf, _On(kopf, registry, name), name, note)


def main() -> None:
    """Run under the installed kopf until SIGTERM."""
    import kopf

    kopf.configure(verbose=True)
    registry = kopf.get_default_registry()
    define(kopf, registry, Path(sys.argv[1]))
    kopf.run(registry=registry, namespaces=[sys.argv[2]], standalone=True)


if __name__ == "__main__":
    main()
