"""The status of a host as JSON: plugins, informers, writes, leases, errors; and the answers to invalid requests."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Owns, Request, Result
from ctrlhost.entries import REASONS
from ctrlhost.testing import Fault, ManualClock
from tests.support.json_schema import problems
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import controller
from tests.support.status import SCHEMA, get, page_of, status_of
from tests.support.status_page import page_at

behaviour = pytest.mark.behaviour

LISTEN = "127.0.0.1:0"


def quiet(_ctx: ctrlhost.Context, _request: Request) -> Result | None:
    return None


@behaviour("operations/OP69")
@pytest.mark.parametrize(
    ("path", "code", "error", "hint"),
    [
        ("/nothing", 404, "no such path", "paths: "),
        ("/queues/demo/d", 404, "no controller `demo/d`", "did you mean `demo/c`?"),
        ("/queues/dem0/c", 404, "no plugin `dem0`", "did you mean `demo`?"),
        ("/queues/demo/c?part=waiting", 400, "no part `waiting`", "parts: queued, processing, delayed, failing"),
        (
            "/queues/demo/c?limit=0000019999",
            400,
            "invalid limit `0000019999`",
            "limit is a number from 1 to 1000",
        ),
        ("/queues/demo/c?limit=0", 400, "invalid limit `0`", "limit is a number from 1 to 1000"),
        ("/queues/demo/c?after=x", 400, "invalid cursor `x`", "`after` is the `next` of the page before"),
        ("/queues/demo/c?part=failing&after=-1", 400, "invalid cursor `-1`", "`after` is the `next`"),
        ("/keys/demo/c", 400, "the parameter `key` is missing", "write it as `key=NAMESPACE/NAME`"),
        ("/series/demo/d", 404, "no controller `demo/d`", "did you mean `demo/c`?"),
    ],
)
def test_a_request_that_cannot_be_answered_gets_an_error_and_a_hint(
    ctrlhost_host: Any, path: str, code: int, error: str, hint: str
) -> None:
    host = ctrlhost_host(controller(quiet, For("v1", "ConfigMap")), listen=LISTEN)
    status, answer = get(host, path)
    assert (status, answer["error"]) == (code, error)
    assert answer["hint"].startswith(hint)
    assert not problems(answer, {"$ref": "#/$defs/Problem"}, SCHEMA)


@behaviour("operations/OP69")
@behaviour("operations/OP57")
def test_the_status_has_the_state_of_each_plugin_and_each_reason_of_degradation(ctrlhost_host: Any) -> None:
    def fail(_plugin: ctrlhost.PluginContext) -> None:
        raise ctrlhost.PluginLoadError("broken", "no settings")

    waits = plugin_of(lambda plugin: plugin.add_controller("c", quiet, For("example.com/v1", "Missing")), "waits")
    runs = plugin_of(lambda plugin: plugin.add_controller("c", quiet, For("v1", "ConfigMap")), "runs")
    off = plugin_of(lambda _plugin: None, "off")
    host = ctrlhost_host(
        runs, waits, plugin_of(fail, "broken"), off, supervision={"off": {"enabled": False}}, listen=LISTEN
    )
    host.wait_for(lambda: host.host.plugins[1].state == "waiting")
    host.wait_for(lambda: host.host.plugins[2].state == "failed")
    plugins = {plugin["name"]: plugin for plugin in status_of(host)["plugins"]}
    states = {name: plugin["state"] for name, plugin in plugins.items()}
    assert states == {"runs": "running", "waits": "waiting", "broken": "failed", "off": "disabled"}
    assert plugins["broken"]["reason"] == "no settings"
    assert plugins["waits"]["reason"].startswith("Missing (example.com/v1): the server does not serve it")
    assert all(plugin["since"] for plugin in plugins.values())
    status = status_of(host)["host"]
    assert not status["ready"]
    assert any(line.startswith("[-]plugin/broken failed") for line in status["not_ready"])
    # Held, since the review ends what does not hold.
    host.host._review.stop()
    host.host._review._thread.join()
    for reason in REASONS:
        before = time.time()
        host.host.plugins[0].entries.degrade(reason, f"because of\n{reason}")
        (condition,) = status_of(host)["plugins"][0]["degraded"]
        assert (condition["reason"], condition["message"]) == (reason, f"because of {reason}")
        assert condition["since"] >= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before))
        host.host.plugins[0].entries.recover(reason)
    assert status_of(host)["plugins"][0]["degraded"] == []


@behaviour("operations/OP71")
def test_failing_keys_show_everywhere_until_they_succeed(ctrlhost_host: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ctrlhost.host")
    failing = {"ann"}

    def reconcile(_ctx: ctrlhost.Context, request: Request) -> None:
        if request.name in failing:
            raise KeyError("spec")

    host = ctrlhost_host(
        controller(reconcile, For("v1", "ConfigMap", label_selector="mine")),
        listen=LISTEN,
        controllers={"demo/c": {"max_delay": "20ms"}},
    )
    host.client.create(config_map("ann", labels={"mine": "1"}))
    degraded = host.wait_for(lambda: status_of(host)["plugins"][0]["degraded"])
    assert [entry["reason"] for entry in degraded] == ["errors"]
    sentence = "demo/c: 1 of 1 key fails, 1 cause; 1 key: KeyError at tests/host/status/test_status.py:"
    assert degraded[0]["message"].startswith(sentence)
    checks = {check.name: check for check in host.host.inspection.checks("readyz")}
    assert f"running, degraded: errors: {sentence}" in checks["plugin/demo"].detail
    assert all(check.passed for check in checks.values() if check.decides)
    row = page_at(host).row("plugins", "demo")
    assert row["State"] == "✖ failing"
    assert "1 of 1 key fails, 1 cause" in row["Reason"]
    labels = {"plugin": "demo", "reason": "errors"}
    registry = host.host.state.metrics.registry
    assert registry.get_sample_value("ctrlhost_plugin_degraded", labels) == 1
    failing.clear()
    host.wait_for(lambda: not status_of(host)["plugins"][0]["degraded"])
    assert registry.get_sample_value("ctrlhost_plugin_degraded", labels) == 0
    assert page_at(host).row("plugins", "demo")["State"] == "● running"
    lines = [record.message for record in caplog.records if "degraded" in record.message]
    assert [line.partition(": demo/c")[0] for line in lines] == [
        "plugin demo degraded: errors",
        "plugin demo no longer degraded: errors",
    ]


@behaviour("operations/OP74")
def test_a_misspelled_kind_is_named_with_the_nearest_one(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    host = ctrlhost_host(controller(quiet, For("apps/v1", "Deploymnet")), clock=manual_clock, listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "waiting")
    text = "no kind `Deploymnet` in apps/v1; did you mean `Deployment`?"
    assert text in status_of(host)["plugins"][0]["reason"]
    host.host._review.check()
    manual_clock.advance(61)
    (degraded,) = host.wait_for(lambda: status_of(host)["plugins"][0]["degraded"])
    assert degraded["reason"] == "waiting"
    assert text in degraded["message"]


@behaviour("operations/OP59")
def test_an_informer_shows_its_users_and_what_each_of_them_costs(slow_map: tuple[Any, threading.Event]) -> None:
    host, release = slow_map

    def rows() -> Any:
        return [row for row in status_of(host)["informers"] if row["resource"] == "configmaps"]

    def slow_user() -> Any:
        (row,) = rows()
        return next(user for user in row["users"] if user["controller"] == "other/slow")

    host.wait_for(lambda: slow_user()["cost"]["pending"] >= 3)
    (row,) = rows()
    users = {user["controller"]: user for user in row["users"]}
    assert {name: user["plugin"] for name, user in users.items()} == {
        "demo/all": "demo",
        "demo/some": "demo",
        "other/slow": "other",
    }
    assert (users["demo/all"]["reads"], users["demo/some"]["reads"]) == ("", "labels=mine reads=metadata")
    assert users["demo/all"]["cost"]["pending"] == users["demo/some"]["cost"]["pending"] == 0
    assert (row["group"], row["version"], row["selection"], row["state"]) == ("", "v1", "", "watching")
    assert row["objects"] >= 3
    assert row["bytes"] > 0
    assert row["cost"]["pending"] >= 3
    release.set()
    host.wait_for(lambda: slow_user()["cost"]["cpu_seconds"] > 0)
    others = [user for user in rows()[0]["users"] if user["controller"] != "other/slow"]
    assert all(user["cost"]["cpu_seconds"] == user["cost"]["handler_seconds"] == 0 for user in others)


@behaviour("operations/OP64")
def test_writes_are_counted_by_verb_resource_and_code(ctrlhost_host: Any, faults: Any, sandbox: Any) -> None:
    proxy = faults(sandbox)
    answers = {"create": None, "patch": None, "conflict": 409, "busy": 429, "broken": 500}
    done: list[str] = []

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        try:
            if request.name == "create":
                ctx.client.create(config_map("made", "default"))
            else:
                ctx.client.patch("v1", "ConfigMap", request.name, "default", {"data": {"a": "1"}})
        except ctrlhost.ApiError:
            pass
        done.append(request.name)

    for name, code in answers.items():
        if code is not None:
            proxy.next(Fault.answer(code, retry_after=7), verb="patch", resource="configmaps", name=name)
    host = ctrlhost_host(
        controller(reconcile, For("v1", "ConfigMap", label_selector="mine")),
        sandbox=sandbox,
        through=proxy,
        listen=LISTEN,
    )
    for name in answers:
        host.client.create(config_map(name, labels={"mine": "1"}))
    host.wait_for(lambda: set(done) == set(answers))
    server = status_of(host)["apiserver"]
    counts = {(write["verb"], write["resource"], write["code"]): write["total"] for write in server["writes"]}
    assert {*counts} >= {("create", "configmaps", "201"), *(("patch", "configmaps", code) for code in
                          ("200", "409", "429", "500"))}  # fmt: skip
    assert server["throttled_seconds"] == 0
    assert len(server["last_writes"]) <= 20
    patched = next(last_write for last_write in server["last_writes"] if last_write["name"] == "conflict")
    assert (patched["code"], patched["namespace"], patched["key"]) == ("409", "default", "default/conflict")
    assert patched["controller"] == "demo/c"
    code, page = get(host, "/keys/demo/c?key=default/conflict")
    assert code == 200
    assert patched["reconcile_id"] in {run["reconcile_id"] for run in page["reconciles"]}
    for _ in range(30):
        host.host.plugins[0].context.client.patch("v1", "ConfigMap", "patch", "default", {"data": {"b": "1"}})
    server = status_of(host)["apiserver"]
    assert len(server["last_writes"]) == 20
    assert {last_write["controller"] for last_write in server["last_writes"]} == {""}
    assert server["up"]
    assert server["last_answer_seconds"] is not None


@behaviour("operations/OP65")
def test_the_status_names_the_holder_and_the_own_role_of_each_lease(ctrlhost_host: Any) -> None:
    def plugins() -> list[Any]:
        return [
            plugin_of(lambda plugin: plugin.add_controller("c", quiet, For("v1", "ConfigMap")), name)
            for name in ("one", "two")
        ]

    options = {"leader_elect": True, "leader_elect_plugins": ["two"], "listen": LISTEN}
    leader = ctrlhost_host(*plugins(), **options)
    leader.wait_for(lambda: all(lease["mine"] for lease in status_of(leader)["leader"]["leases"]))
    standby = ctrlhost_host(*plugins(), sandbox=leader.sandbox, **options)
    identity = leader.host.leadership.identity
    standby.wait_for(lambda: all(lease["holder"] == identity for lease in status_of(standby)["leader"]["leases"]))
    for host, mine in ((leader, True), (standby, False)):
        status = status_of(host)
        assert status["leader"]["elected"]
        leases = {tuple(lease["plugins"]): lease for lease in status["leader"]["leases"]}
        assert leases.keys() == {("one",), ("two",)}
        assert {lease["holder"] for lease in leases.values()} == {identity}
        assert {lease["mine"] for lease in leases.values()} == {mine}
        assert all(lease["renewed_seconds"] >= 0 for lease in leases.values())
        assert {controller["leading"] for controller in status["controllers"]} == {mine}
    alone = ctrlhost_host(*plugins(), listen=LISTEN)
    assert status_of(alone)["leader"] == {"elected": False, "leases": []}


@behaviour("operations/OP66")
def test_a_page_of_a_long_queue_has_a_hundred_keys_and_a_next_page(long_queue: Any) -> None:
    host = long_queue
    first = page_of(host, "demo/c", part="queued")
    assert (len(first["items"]), first["total"]) == (100, 100_000)
    second = page_of(host, "demo/c", part="queued", after=first["next"])
    keys = [item["key"] for page in (first, second) for item in page["items"]]
    assert keys == [f"default/a{number}" for number in range(200)]
    assert second["items"][0]["age_seconds"] >= 0
    assert status_of(host)["controllers"][0]["queue"]["depth"] == 100_000
    last = page_of(host, "demo/c", part="queued", limit=1000)
    assert len(last["items"]) == 1000


def test_failing_keys_have_pages_and_the_worst_are_named(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    def reconcile(_ctx: ctrlhost.Context, request: Request) -> None:
        raise KeyError(request.name)

    host = ctrlhost_host(
        controller(reconcile, For("v1", "ConfigMap", label_selector="mine")), clock=manual_clock, listen=LISTEN
    )
    for number in range(12):
        host.client.create(config_map(f"a{number}", labels={"mine": "1"}))
    host.wait_for(lambda: page_of(host, "demo/c", part="failing")["total"] == 12)
    host.run_until_idle()
    first = page_of(host, "demo/c", part="failing", limit=10)
    second = page_of(host, "demo/c", part="failing", limit=10, after=first["next"])
    assert second["next"] is None
    keys = {item["key"] for page in (first, second) for item in page["items"]}
    assert keys == {f"default/a{number}" for number in range(12)}
    assert all(item["failures"] == 1 for item in first["items"])
    status = status_of(host)
    assert len(status["failing"]) == 10
    worst = status["failing"][0]
    assert worst["error"].startswith("KeyError: 'a")
    assert worst["place"].startswith("tests/host/status/test_status.py:")
    assert worst["next_retry_seconds"] >= 0
    assert status["controllers"][0]["queue"]["retrying"] == 12
    assert len(status["errors"]) == 12
    assert status["errors"][0]["reconcile_id"]
    assert status["errors"][0]["type"] == "KeyError"


def test_keys_in_progress_and_delayed_keys_have_pages(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    release = threading.Event()

    def reconcile(_ctx: ctrlhost.Context, request: Request) -> Result | None:
        if request.name == "later":
            return Result(requeue_after=60, priority=3)
        release.wait(60)
        return None

    host = ctrlhost_host(
        controller(reconcile, For("v1", "ConfigMap", label_selector="mine"), Owns("v1", "Secret")),
        clock=manual_clock,
        listen=LISTEN,
        controllers={"demo/c": {"slow_after": "1h"}},
    )
    host.client.create(config_map("later", labels={"mine": "1"}))
    host.wait_for(lambda: page_of(host, "demo/c", part="delayed")["total"] == 1)
    (later,) = page_of(host, "demo/c", part="delayed")["items"]
    assert (later["key"], later["priority"], later["age_seconds"]) == ("default/later", 3, None)
    assert later["due_seconds"] == pytest.approx(60)
    host.client.create(config_map("long", labels={"mine": "1"}))
    host.wait_for(lambda: page_of(host, "demo/c", part="processing")["total"] == 1)
    (running,) = page_of(host, "demo/c", part="processing")["items"]
    assert (running["key"], running["due_seconds"]) == ("default/long", None)
    status = host.wait_for(lambda: (row := status_of(host)["controllers"][0])["active"] and row)
    assert (status["workers"], status["queue"]["processing"], status["queue"]["delayed"]) == (1, 1, 1)
    release.set()


def test_the_resource_of_an_informer_is_the_plural_as_it_is_served(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(controller(quiet, For("acme.io/v1", "Policy")), listen=LISTEN)
    assert [row["resource"] for row in status_of(host)["informers"] if row["group"] == "acme.io"] == ["policy"]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    names = {"plural": "policies", "singular": "policy", "kind": "Policy"}
    spec = {"group": "acme.io", "scope": "Namespaced", "names": names, "versions": versions}
    metadata = {"name": "policies.acme.io"}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    host.client.create({**kind, "metadata": metadata, "spec": spec})
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    assert [row["resource"] for row in status_of(host)["informers"] if row["group"] == "acme.io"] == ["policies"]
