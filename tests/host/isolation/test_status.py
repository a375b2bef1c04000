"""The status of a host with the part of an isolated plugin, from its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.isolated import IsolatedHost
from tests.support.json_schema import problems
from tests.support.plugin_modules import config_map
from tests.support.status import SCHEMA, get, key_of, page_of, status_of

BAD = """
    import os
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("all", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))

    def reconcile(ctx, request):
        if request.name == "fails":
            raise KeyError("spec")
        if request.name == "surrogate":
            raise ValueError(os.fsdecode(b"/data/\\xff.txt"))
        ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, {"data": {"a": "1"}})
"""


@pytest.mark.behaviour("operations/OP69")
def test_the_status_has_the_controllers_keys_and_writes_of_an_isolated_plugin(
    isolated: Callable[..., IsolatedHost],
) -> None:
    host = isolated(bad=BAD)
    host.running()
    for name in ("fails", "writes", "surrogate"):
        host.client.create(config_map(name, labels={"mine": "1"}))
    process = host.process

    def failing() -> bool:
        errors = {
            entry["key"]: entry["error"] for entry in status_of(process)["failing"] if entry["controller"] == "bad/all"
        }
        return "default/fails" in errors and errors.get("default/surrogate") == "ValueError: /data/\ufffd.txt"

    process.eventually(failing, "failing keys")
    status = process.eventually(
        lambda: (body := status_of(process)) and any(w["name"] == "writes" for w in body["apiserver"]["last_writes"])
        and body, "write of the process",
    )  # fmt: skip
    assert {controller["name"] for controller in status["controllers"]} == {"good/all", "bad/all"}
    plugins = {plugin["name"]: plugin for plugin in status["plugins"]}
    assert (plugins["good"]["isolated"], plugins["bad"]["isolated"]) == (False, True)
    assert plugins["bad"]["state"] == "running"
    assert {entry["key"] for entry in status["failing"]} == {"default/fails", "default/surrogate"}
    assert {error["controller"] for error in status["errors"]} == {"bad/all"}
    assert ("bad/all", "200") in {
        (last_write["controller"], last_write["code"]) for last_write in status["apiserver"]["last_writes"]
    }
    assert any(user["controller"] == "bad/all" for row in status["informers"] for user in row["users"])
    assert len({row["id"] for row in status["informers"]}) == len(status["informers"])
    assert status["host"]["pid"] == process.pid
    assert key_of(process, "bad/all", "default/fails")["verdict"] in ("backing off", "queued", "processing")
    assert key_of(process, "bad/all", "default/writes")["verdict"] == "done"
    assert page_of(process, "bad/all", part="failing")["total"] == 2
    code, answer = get(process, "/queues/bad/al")
    assert (code, answer["hint"]) == (404, "did you mean `bad/all`?")


@pytest.mark.behaviour("oncall/OC23")
def test_the_causes_of_an_isolated_plugin_are_those_of_the_host(isolated: Callable[..., IsolatedHost]) -> None:
    host = isolated(bad=BAD)
    host.running()
    for name in ("fails", "writes", "surrogate"):
        host.client.create(config_map(name, labels={"mine": "1"}))
    process = host.process

    def failing() -> Any:
        status = status_of(process)
        controller = next(row for row in status["controllers"] if row["name"] == "bad/all")
        return controller["outcomes"]["failing"] == 2 and controller["outcomes"]["keys"] == 3 and status

    status = process.eventually(failing, "failing keys")
    (controller,) = [row for row in status["controllers"] if row["name"] == "bad/all"]
    assert controller["outcomes"]["sentence"] == "2 of 3 keys fail, 2 causes"
    assert {(cause["controller"], cause["type"], cause["keys"], cause["key"]) for cause in status["causes"]} == {
        ("bad/all", "KeyError", 1, "default/fails"),
        ("bad/all", "ValueError", 1, "default/surrogate"),
    }
    code, page = get(process, "/causes/bad/all")
    assert (code, page["total"]) == (200, 2)
    assert not problems(page, {"$ref": "#/$defs/CausePage"}, SCHEMA)
    detail = next(item for item in page["items"] if item["cause"]["type"] == "KeyError")
    assert 'raise KeyError("spec")' in detail["traceback"]
    assert detail["failing"] == ["default/fails"]
    number = detail["cause"]["id"]
    queue = page_of(process, "bad/all", part="failing", cause=number)
    assert [(item["key"], item["cause"]) for item in queue["items"]] == [("default/fails", number)]
    key = key_of(process, "bad/all", "default/fails")["failing"]
    assert (key["cause"], key["error"]) == (number, "KeyError: 'spec'")
    assert 'raise KeyError("spec")' in key["traceback"]
    title = f"KeyError at {detail['cause']['place']}"
    process.wait_for_metric(1, "ctrlhost_failing_keys", controller="bad/all", cause=title)
    process.wait_for_metric(3, "ctrlhost_keys", controller="bad/all")


LATE = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        def reconcile(ctx, request):
            if request.name == "adds":
                plugin.add_controller("late", add_label, ctrlhost.For("v1", "Secret", label_selector="mine"))

        plugin.add_controller("all", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))

    def add_label(ctx, request):
        ctx.client.patch("v1", "Secret", request.name, request.namespace, {"metadata": {"labels": {"seen": "yes"}}})
"""


@pytest.mark.behaviour("kopf/KO24")
def test_a_controller_that_an_isolated_plugin_adds_later_is_known(isolated: Callable[..., IsolatedHost]) -> None:
    host = isolated(bad=LATE)
    host.running()
    process, client = host.process, host.client
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "labels": {"mine": "1"}},
    }
    client.create(secret)
    client.create(config_map("adds", labels={"mine": "1"}))
    process.eventually(lambda: "seen" in client.get("v1", "Secret", "s", "default")["metadata"]["labels"], "its run")
    process.eventually(lambda: "bad/late" in {known["name"] for known in status_of(process)["controllers"]}, "its line")
    assert page_of(process, "bad/late")["total"] == 0
