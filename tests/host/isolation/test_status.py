"""The status of a host with the part of an isolated plugin, from its process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.isolated import IsolatedHost
from tests.support.plugin_modules import config_map
from tests.support.status import get, key_of, page_of, status_of

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
