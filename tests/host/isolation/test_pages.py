"""The status pages of a host with an isolated plugin: its controllers' pages come from its process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.isolated import IsolatedHost
from tests.support.plugin_modules import config_map
from tests.support.status_page import get, page_at

BAD = """
    import os
    import ctrlhost

    async def page(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("all", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="mine"))
        plugin.add_page("/", page)

    def reconcile(ctx, request):
        if request.name == "exits":
            os._exit(3)
        raise KeyError("spec")
"""


@pytest.mark.behaviour("operations/OP58")
def test_every_link_answers_and_what_a_process_shows_goes_on_after_its_restart(
    isolated: Callable[..., IsolatedHost],
) -> None:
    host = isolated(bad=BAD)
    host.running()
    process = host.process
    host.client.create(config_map("fails", labels={"mine": "1"}))
    process.eventually(lambda: page_at(process).rows("errors"), "error on the page")
    seen, todo = {"/"}, ["/"]
    while todo:
        path = todo.pop()
        if not path.startswith("/status/") and path != "/":
            assert get(process, path, Accept="text/html")[0] == 200, path
            continue
        page = page_at(process, path)
        assert page.status == 200, path
        for link in page.links:
            if not link.startswith("#") and link not in seen:
                seen.add(link)
                todo.append(link)
    assert {"/bad/", "/good/modules", "/status/plugins/bad", "/status/controllers/bad/all"} <= seen
    assert "/status/keys/bad/all?key=default/fails" in seen
    plugin = page_at(process, "/status/plugins/bad")
    assert "in a process of its own." in plugin.text
    assert plugin.rows("failing")[0]["Key"] == "default/fails"
    assert plugin.rows("errors")[0]["Key"] == "default/fails"
    key = "/status/keys/bad/all?key=default/fails"
    assert page_at(process, key).section("verdict")[0].text.split(",")[0][2:] in ("backing off", "queued", "processing")

    # The process of the plugin answers open pages, too.
    first = page_at(process, "/status/controllers/bad/all")
    again = get(process, "/status/controllers/bad/all", **{"If-None-Match": first.headers["ETag"]})
    assert again[0] in (200, 304)
    assert (again[0] == 304) == (again[1]["ETag"] == first.headers["ETag"])
    host.client.create(config_map("exits", labels={"mine": "1"}))

    def down() -> Any:
        page = page_at(process, "/status/controllers/bad/all")
        assert page.status == 200
        text = page.section("verdict")[0].text
        return "does not run: plugin bad is " in text

    # Each restart ends in the same way, so that it is down for longer and longer.
    process.eventually(down, "page that says why the controller does not run")
    assert page_at(process, "/status/plugins/bad").status == 200
    assert page_at(process).status == 200


@pytest.mark.slow
@pytest.mark.behaviour("operations/OP58")
def test_what_is_shown_of_a_process_that_hangs_says_so(isolated: Callable[..., IsolatedHost]) -> None:
    host = isolated(bad=BAD, heartbeat_timeout="10m")
    child = host.running()
    process = host.process
    of_controller = "/status/controllers/bad/all"
    # A slash at the end changes nothing.
    for path in (of_controller, f"{of_controller}/"):
        assert page_at(process, path).row("controllers", "bad/all")
    process.eventually(lambda: page_at(process).row("controllers", "bad/all"), "controller on the page")
    assert "does not answer" not in page_at(process).text
    os.kill(child, signal.SIGSTOP)
    try:
        for path in (of_controller, f"{of_controller}/", "/status/keys/bad/all?key=default/x"):
            page = page_at(process, path)
            assert page.status == 200
            assert "the process of plugin bad does not answer now" in page.text
        for path in ("/queues/bad/all", "/keys/bad/all?key=default/x"):
            status, headers, body = get(process, f"/api/v1{path}")
            assert (status, headers["Content-Type"]) == (504, "application/json"), path
            assert set(json.loads(body)) == {"error", "hint"}
        for path in ("/", "/status/plugins/bad"):
            page = process.eventually(lambda path=path: (view := page_at(process, path)) and "old-bad" in view.source
                                      and view, "age on the page")  # fmt: skip
            assert "The process of plugin bad does not answer now: what is shown of it is as it was" in page.text
            assert page.row("controllers", "bad/all")
    finally:
        os.kill(child, signal.SIGCONT)
    process.eventually(lambda: "does not answer" not in page_at(process).text, "page without an age")
    process.eventually(lambda: page_at(process, of_controller).row("controllers", "bad/all"), "page of the process")
