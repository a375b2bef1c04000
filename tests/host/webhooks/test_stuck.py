"""A plugin whose webhook hangs, beside one whose webhook and reconciler do not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ctrlhost
from tests.support.declared import declared
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually
from tests.support.webhook_host import WebhookHost, config_map

behaviour = pytest.mark.behaviour
CREATES = 200
#: Calls that a plugin runs and queues.
RUN, QUEUED = 8, 64
STUCK = "/validate/stuck/hangs"


def stuck(released: threading.Event) -> Any:
    plugin = declared("stuck")

    @plugin.validate("v1/ConfigMap", label_selector="to=stuck", timeout="4s", failure_policy="Ignore")
    def hangs(ctx: Any, new: Any, old: Any) -> None:
        released.wait(120)

    return plugin


def good(reconciled: list[str]) -> Any:
    plugin = declared("good")

    @plugin.validate("v1/ConfigMap", label_selector="to=good")
    def checks(ctx: Any, new: Any, old: Any) -> None:
        if new["data"]["size"] == "large":
            raise ctrlhost.Denied("must be small")

    @plugin.controller(ctrlhost.For("v1/ConfigMap", label_selector="to=good"))
    def reconcile(ctx: Any, obj: Any) -> None:
        reconciled.append(obj.name)

    return plugin


def count(host: WebhookHost, code: str) -> float:
    """Return the number of answers with a code at the path of the stuck webhook."""
    wanted = f'controller_runtime_webhook_requests_total{{code="{code}",webhook="{STUCK}"}} '
    lines = [line for line in host.get("/metrics")[1].splitlines() if line.startswith(wanted)]
    return float(lines[0].rpartition(" ")[2]) if lines else 0.0


@behaviour("webhooks/WH7")
def test_a_stuck_plugin_holds_up_nobody_else(
    serve: Callable[..., WebhookHost], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    released, reconciled = threading.Event(), list[str]()
    host = serve(stuck(released), good(reconciled))
    path = host.path("configmaps")

    def create(number: int) -> int:
        with api_of(host.server.kubeconfig) as api:
            return api.post(path, config_map(f"stuck-{number}", {"to": "stuck"}), dryRun="All").status

    with ThreadPoolExecutor(CREATES) as threads:
        creating = [threads.submit(create, number) for number in range(CREATES)]
        eventually(lambda: count(host, "429"), what="a refusal", pause=0.02)
        # The others are answered meanwhile.
        for number in range(5):
            host.api.post(path, config_map(f"good-{number}", {"to": "good"}, size="small")).expect(201)
            host.api.post(path, config_map("no", {"to": "good"}, size="large")).fails(422, "Invalid")
        eventually(lambda: {f"good-{number}" for number in range(5)} <= set(reconciled))
        stuck_line = f"; stuck: {RUN} beyond the deadline"
        eventually(lambda: stuck_line in host.ready()[1], what="the name of the stuck plugin", pause=0.02)
        code, body = host.ready()
        assert code == 200
        assert f"[+]webhooks/stuck ok: {RUN} running, " in body
        line = "[+]plugin/stuck ok: running, degraded: slow: webhook of /validate/stuck/hangs is beyond its deadline"
        assert line in body
        assert "[+]webhooks/good ok: 0 running, 0 queued" in body
        assert f"webhook of {STUCK} runs for" in caplog.text
        page = host.get("/status/plugins/stuck")[1]
        assert STUCK in page
        assert f"{RUN} stuck" in page
        # Its failure policy is `Ignore`.
        assert {created.result() for created in creating} == {201}
    eventually(lambda: sum(count(host, code) for code in ("429", "504")) == CREATES)
    assert count(host, "504") >= RUN + QUEUED
    # Those that hang still have the threads; what waited has left the queue.
    eventually(lambda: f"[+]webhooks/stuck ok: {RUN} running, 0 queued" in host.ready()[1])
    released.set()
    eventually(lambda: "[+]webhooks/stuck ok: 0 running, 0 queued" in host.ready()[1])
    admitted = host.listener.review(STUCK, config_map("free", {"to": "stuck"}))
    assert admitted["allowed"] is True
    eventually(lambda: "[+]plugin/stuck ok: running\n" in host.ready()[1])
