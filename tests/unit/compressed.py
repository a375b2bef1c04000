"""Informers whose objects are compressed."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ctrlhost.cache import SharedInformer
from tests.support.waiting import eventually


def varied_pod(number: int, version: int = 0, env: int = 20) -> dict[str, Any]:
    """Return a pod that differs from others as pods of a cluster do; with 100 variables it has over 5 KB."""
    rand = random.Random(number)
    app = f"web-{number % 50}"
    node = rand.randrange(500)
    return {
        "metadata": {
            "name": f"{app}-{rand.randrange(16**9):09x}-{number}",
            "namespace": f"team-{number % 20}",
            "uid": f"{rand.randrange(16**8):08x}-{rand.randrange(16**4):04x}-4000-a000-{rand.randrange(16**12):012x}",
            "resourceVersion": str(version or number + 1),
            "labels": {"app": app, "pod-template-hash": f"{rand.randrange(16**9):09x}", "tier": "front"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"rs-{app}", "controller": True}
            ],
        },
        "spec": {
            "nodeName": f"node-{node}",
            "containers": [
                {
                    "name": "main",
                    "image": f"registry.example.com/team/{app}:1.{rand.randrange(40)}",
                    "env": [{"name": f"SETTING_{at}", "value": f"value of setting {at}"} for at in range(env)],
                    "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.{node % 256}.{rand.randrange(256)}.{rand.randrange(256)}",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": f"2026-01-02T03:04:{rand.randrange(60):02}Z"}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
        },
    }


def varied_texts(count: int) -> Iterator[bytes]:
    """Return the texts of many varied pods, of 3 KB."""
    models = [json.dumps(varied_pod(number, env=50)).encode() for number in range(500)]
    rand = random.Random(1)
    for number in range(count):
        model = models[number % len(models)]
        name = b'"name": "pod-%d-%09x", "was": "' % (number, rand.randrange(16**9))
        uid = b'"uid": "%08x-' % rand.randrange(16**8)
        yield model.replace(b'"name": "', name, 1).replace(b'"uid": "', uid, 1)


def random_map(number: int) -> dict[str, Any]:
    """Return a ConfigMap of 4,000 random bytes, as base64."""
    noise = base64.b64encode(random.Random(number).randbytes(4_000)).decode()
    return {"metadata": {"name": f"map-{number}", "resourceVersion": str(number + 1)}, "binaryData": {"noise": noise}}


def key_of(obj: dict[str, Any]) -> str:
    return "/".join(filter(None, (obj["metadata"].get("namespace"), obj["metadata"]["name"])))


def listed(
    objects: Iterable[dict[str, Any] | bytes],
    compression: Any = "on",
    *,
    kind: str = "Pod",
    informer: SharedInformer | None = None,
) -> SharedInformer:
    """Return an informer that has listed these objects, as JSON."""
    informer = informer or SharedInformer("things", "v1", kind, compression=compression)
    informer.begin_list()
    informer.feed_list(
        b'{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[' % kind.encode()
    )
    texts = (obj if isinstance(obj, bytes) else json.dumps(obj).encode() for obj in objects)
    informer.feed_list(next(texts, b""))
    while piece := b"".join(b"," + text for text in islice(texts, 100)):
        informer.feed_list(piece)
    informer.feed_list(b"]}")
    informer.end_page()
    informer.replace("1000000")
    informer.process()
    return informer


def compressed(informer: SharedInformer, objects: int) -> SharedInformer:
    """Wait until the informer has so many compressed objects."""
    eventually(lambda: informer.stats()["compressed_objects"] >= objects, what=f"{objects} compressed objects")
    return informer


def event(informer: SharedInformer, kind: str, obj: dict[str, Any], of: str = "Pod") -> None:
    """Feed and process one event of a watch."""
    frame = {"type": kind, "object": {"kind": of, "apiVersion": "v1", **obj}}
    informer.feed_watch(json.dumps(frame).encode() + b"\n")
    informer.process()
