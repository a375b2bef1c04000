"""Admission reviews and the webhooks of a plugin, without a host."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from types import SimpleNamespace
from typing import Any

import ctrlhost
from ctrlhost.declarative.webhooks import add_webhooks
from ctrlhost.webhooks import review
from ctrlhost.webhooks.webhook import Webhook


def host_of(plugin: ctrlhost.Plugin[Any, Any], *, settings: Any = None, state: Any = None) -> Any:
    """Return the context of a plugin, with its webhooks."""
    scope = SimpleNamespace(state=state, log=logging.getLogger("ctrlhost.plugin.demo"), listers={})
    host = SimpleNamespace(name="demo", settings=settings, scope=scope, informer=None, webhooks=[], conversions=[])
    plugin.ctrlhost_loaded("demo")
    add_webhooks(plugin.declaration, host, plugin.ctrlhost_crds())  # type: ignore[arg-type]
    return host


def request(new: dict[str, Any] | None, old: dict[str, Any] | None = None, operation: str = "", **more: Any) -> bytes:
    """Return the body of a review."""
    obj = new or old or {}
    group, _, version = obj["apiVersion"].rpartition("/")
    content = {
        "uid": "42",
        "operation": operation or ("DELETE" if new is None else "UPDATE" if old else "CREATE"),
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "resource": {"group": group, "version": version, "resource": "any"},
        "name": obj["metadata"].get("name", ""),
        "namespace": obj["metadata"].get("namespace", ""),
        "userInfo": {"username": "ann", "groups": ["admins"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions"},
        **more,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": content}).encode()


def answer(host: Any, body: bytes, webhook: int = 0, **options: Any) -> dict[str, Any]:
    """Return the response of one webhook of a host."""
    called: Webhook = host.webhooks[webhook]
    if called.is_async:
        answered = asyncio.run(review.answer_async(called, body, host, **options))
    else:
        answered = review.answer(called, body, host, **options)
    content = json.loads(answered.body)
    assert (content["apiVersion"], content["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = content["response"]
    assert response["uid"] == "42"
    assert answered.denied is not response["allowed"]
    return response


def patch(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the operations of a response."""
    assert response["patchType"] == "JSONPatch"
    operations: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return operations
