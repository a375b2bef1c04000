"""Statuses of a host, as commands read them."""

from __future__ import annotations

from typing import Any

NOW = "2026-01-05T04:00:00.000Z"


def outcomes(sentence: str = "", **fields: Any) -> dict[str, Any]:
    return {"keys": 0, "failing": 0, "causes": 0, "since": None, "sentence": sentence} | fields


def controller(name: str, **fields: Any) -> dict[str, Any]:
    queue = {"depth": 0, "oldest_seconds": 0.0, "delayed": 0, "retrying": 0, "processing": 0}
    queue |= {field: fields.pop(field) for field in list(fields) if field in queue}
    return {
        "name": name,
        "paused": False,
        "paused_by": None,
        "paused_since": None,
        "paused_reason": "",
        "leading": True,
        "waiting": None,
        "workers": 4,
        "active": 0,
        "per_second": 0.0,
        "errors_per_second": 0.0,
        "p50": None,
        "p99": None,
        "oldest_running_seconds": 0.0,
        "severity": "ok",
        "state": "ok",
        "outcomes": outcomes(),
        "queue": queue,
    } | fields


def failing(name: str, keys: int, of: int, causes: int = 1, **fields: Any) -> dict[str, Any]:
    noun = "cause" if causes == 1 else "causes"
    sentence = f"{keys:,} of {of:,} keys fail, {causes} {noun}"
    facts = outcomes(sentence, keys=of, failing=keys, causes=causes, since="2026-01-05T03:33:00.000Z")
    return controller(name, state="failing", severity="failing", outcomes=facts, **fields)


def plugin(name: str, state: str = "running", reason: str = "", **degraded: str) -> dict[str, Any]:
    reasons = [{"reason": why, "since": NOW, "message": message} for why, message in degraded.items()]
    condition = "degraded" if reasons and state == "running" else state
    return {
        "name": name,
        "version": "1.0",
        "state": state,
        "condition": condition,
        "reason": reason,
        "degraded": reasons,
        "missing_rights": [],
        "outcomes": outcomes(),
    }


def cause(controller: str, keys: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"{keys:08x}",
        "controller": controller,
        "type": "ValueError",
        "place": "shop/orders.py:12",
        "text": "no price for #",
        "keys": keys,
        "failures": keys * 7,
        "per_second": 4.0,
        "first": "2026-01-05T03:33:00.000Z",
        "last": "2026-01-05T03:59:58.000Z",
        "key": "orders/a1",
        "error": "ValueError: no price for a1",
        "reconcile_id": "0-40",
    } | fields


def informer(resource: str, group: str = "", **fields: Any) -> dict[str, Any]:
    cost = {"cpu_seconds": 0.1, "handler_seconds": 0.2, "pending": 0}
    return {
        "id": f"{resource}.{group}",
        "resource": resource,
        "group": group,
        "version": "v1",
        "selection": "",
        "objects": 1204,
        "bytes": 1_992_294,
        "last_event_seconds": 2.0,
        "last_byte_seconds": 1.0,
        "watches": 1,
        "users": [{"plugin": "shop", "controller": "shop/order", "reads": "", "cost": cost}] * 3,
        "state": "watching",
        "reason": "",
        "cost": cost,
    } | fields


def webhook(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "path": f"/validate/guard/{name}",
        "plugin": "guard",
        "per_second": 2.0,
        "total": 1200,
        "errors": 3,
        "denied": 40,
        "in_flight": 1,
        "overdue": 0,
        "p50": 0.002,
        "p99": 0.5,
    } | fields


def status(**fields: Any) -> dict[str, Any]:
    host = {
        "version": "0.2.0",
        "state": "running",
        "ready": True,
        "not_ready": [],
        "dry_run": False,
        "started": "2026-01-02T00:00:00.000Z",
        "cpu_per_second": 0.031,
        "rss_bytes": 109_051_904,
    }
    return {
        "time": NOW,
        "host": host | fields.pop("host", {}),
        "leader": {"elected": True, "leases": [{"name": "ctrlhost", "mine": True, "holder": "a"}]},
        "apiserver": {"up": True, "last_answer_seconds": 0.2},
        "plugins": [plugin("shop"), plugin("naming")],
        "controllers": [
            controller("naming/calm", per_second=41.23, p50=0.012, p99=0.08, active=2, delayed=3),
            failing("shop/order", 771, 1200, errors_per_second=6.1, depth=112, oldest_seconds=48.0, retrying=771),
        ],
        "outcomes": outcomes("771 of 1,300 keys fail, 1 cause", failing=771),
        "severity": "failing",
        "causes": [cause("shop/order", 771)],
        "informers": [informer("ingresses", "networking.k8s.io"), informer("pods", selection="labels=a=b")],
        "webhooks": [],
        "failing": [],
        "errors": [],
    } | fields


def page(*keys: str, total: int = 0) -> dict[str, Any]:
    """Return a page of failing keys."""
    items = [
        {
            "key": key,
            "priority": None,
            "age_seconds": None,
            "failures": 12,
            "due_seconds": 10.0,
            "error": f"ValueError: no price for {key}",
            "place": "shop/orders.py:12",
            "reconcile_id": "0-40",
            "cause": "00000303",
        }
        for key in keys
    ]
    return {"items": items, "next": None, "total": total or len(items)}
