"""The status pages over HTTP: what each of them shows."""

from __future__ import annotations

import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

import ctrlhost
from ctrlhost import For, Request, Result, TerminalError
from ctrlhost.entries import REASONS
from ctrlhost.host.reports import Reports
from ctrlhost.status.pages.text import NONE
from ctrlhost.testing import Fault, ManualClock
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import controller
from tests.support.status import page_of, status_of
from tests.support.status_page import get, page_at

behaviour = pytest.mark.behaviour

LISTEN = "127.0.0.1:0"
MINE = {"mine": "1"}
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def quiet(_ctx: ctrlhost.Context, _request: Request) -> Result | None:
    return None


def one_controller(name: str) -> Any:
    return plugin_of(lambda plugin: plugin.add_controller("c", quiet, For("v1", "ConfigMap")), name)


async def hello(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": b"<p>hello</p>"})


@behaviour("operations/OP53")
@behaviour("operations/OP50")
def test_a_page_is_whole_without_script_and_programs_get_a_list(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(one_controller("demo"), listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    page = page_at(host)
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "Accept" in page.headers["Vary"].split(", ")
    assert [row["Plugin"] for row in page.rows("plugins")] == ["demo"]
    assert [row["Controller"] for row in page.rows("controllers")] == ["demo/c"]
    assert [row["Informer"] for row in page.rows("informers")] == ["configmaps"]
    (reload,) = (element for element in page.root.all("noscript"))
    assert next(reload.all("meta")).attributes == {"http-equiv": "refresh", "content": "10"}
    for accept in ("*/*", "text/plain", ""):
        status, headers, body = get(host, "/", Accept=accept)
        assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
        assert {"/livez", "/metrics", "/api/v1/status", "/debug/stacks"} <= set(body.decode().split())
    assert get(host, "/", **HTML)[1]["Content-Type"] == "text/html; charset=utf-8"
    packed = page_at(host, **{"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.rows("plugins") == page.rows("plugins")


@behaviour("operations/OP20")
@behaviour("operations/OP50")
def test_pages_load_their_own_style_and_script_and_nothing_else(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(one_controller("demo"), listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    paths = ("/", "/status/plugins/demo", "/status/controllers/demo/c", "/status/keys/demo/c?key=default/a")
    assets = set()
    for path in paths:
        page = page_at(host, path)
        assert page.status == 200
        elements = list(page.root.all())
        loaded = [
            element for element in elements if element.name in ("script", "link", "img", "iframe", "style", "form")
        ]
        assert [element.name for element in loaded] == ["link", "link", "script"]
        assert loaded[0].attributes["rel"] == "icon"
        assert (loaded[0].attributes["href"] or "").startswith("data:")
        assert loaded[2].attributes["type"] == "module"
        assets |= {loaded[1].attributes["href"], loaded[2].attributes["src"]}
        # The policy forbids what is inline.
        assert not [
            name for element in elements for name in element.attributes if name.startswith("on") or name == "style"
        ]
        assert not loaded[2].text
        assert page.headers["Cache-Control"] == "no-store"
        assert "script-src 'self'; style-src 'self'" in page.headers["Content-Security-Policy"]
        assert next(page.root.all("html")).attributes["lang"] == "en"
        assert len(list(page.root.all("h1"))) == 1
        assert all(cell.attributes.get("scope") in ("col", "row") for cell in page.root.all("th"))
    assert len(assets) == 2
    size = 0
    for address in sorted(value or "" for value in assets):
        status, headers, body = get(host, address)
        kind = "text/javascript" if address.endswith(".js") else "text/css"
        assert (status, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert b"http://" not in body
        assert b"https://" not in body
        assert not address.endswith(".js") or len(body) <= 8 << 10
        size += len(body)
    assert size <= 24 << 10
    assert get(host, "/assets/status-0000000000000000.js")[0] == 404


@behaviour("operations/OP50")
def test_a_page_of_fifty_controllers_is_small(ctrlhost_host: Any) -> None:
    kinds = [("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "Service"), ("apps/v1", "Deployment")]

    def setup(plugin: ctrlhost.PluginContext) -> None:
        for number in range(50):
            version, kind = kinds[number % len(kinds)]
            selector = f"group-{number % 20}"
            plugin.add_controller(f"controller-{number}", fails, For(version, kind, label_selector=selector))

    def fails(_ctx: ctrlhost.Context, _request: Request) -> None:
        raise KeyError("spec")

    host = ctrlhost_host(plugin_of(setup, "hostname"), listen=LISTEN)
    for number in range(60):
        host.client.create(config_map(f"object-{number}", labels={f"group-{index}": "1" for index in range(20)}))
    host.wait_for(lambda: len(page_at(host).rows("errors")) == 10)
    page = page_at(host)
    assert len(page.rows("controllers")) == 50
    assert len(page.rows("informers")) == 20
    assert len(page.body) <= 80 << 10
    assert len(gzip.compress(page.body)) <= 12 << 10


@behaviour("operations/OP57")
def test_each_state_and_each_reason_is_on_the_page_and_the_verdict_says_the_worst(ctrlhost_host: Any) -> None:
    def fail(_plugin: ctrlhost.PluginContext) -> None:
        raise ctrlhost.PluginLoadError("broken", "no settings")

    waits = plugin_of(lambda plugin: plugin.add_controller("c", quiet, For("example.com/v1", "Missing")), "waits")
    off = plugin_of(lambda _plugin: None, "off")
    settings = {"supervision": {"off": {"enabled": False}}, "start_timeout": 0.0, "listen": LISTEN}
    host = ctrlhost_host(one_controller("runs"), waits, off, **settings)
    host.wait_for(lambda: [plugin.state for plugin in host.host.plugins] == ["running", "waiting", "disabled"])
    host.host._review.stop()
    host.host._review._thread.join()

    page = page_at(host)
    verdict, state = (row.text for row in page.section("verdict"))
    assert verdict == "▲ waits is waiting"
    assert state.startswith("no leader election · API server ok")
    assert next(page.root.all("title")).text.startswith("▲ waits is waiting · ctrlhost on ")
    assert page.row("plugins", "runs")["State"] == "● running"
    waiting = page.row("plugins", "waits")
    assert (waiting["State"], waiting["Reason"][:30]) == ("▲ waiting", "Missing (example.com/v1): the ")
    assert page.row("plugins", "off")["State"].endswith("disabled")
    assert page.row("controllers", "waits/c")["State"] == "▲ waiting"
    since = {plugin["name"]: plugin["since"] for plugin in status_of(host)["plugins"]}
    ages = [time.attributes["datetime"] for time in page.root.all("time")]
    assert {since[name] for name in ("runs", "waits", "off")} <= set(ages)
    for reason in REASONS:
        host.host.plugins[0].entries.degrade(reason, f"because of {reason}")
        page = page_at(host)
        row = page.row("plugins", "runs")
        # Whoever has paused a controller knows it.
        assert row["State"] == ("● running" if reason == "paused" else "▲ degraded")
        assert row["Reason"].startswith(f"{reason} since ")
        assert row["Reason"].endswith(f": because of {reason}")
        said = reason in ("errors", "waiting", "forbidden", "paused")
        assert (f"runs degraded: {reason}" in page.section("verdict")[0].text) != said
        assert page_at(host, "/status/plugins/runs").row("plugins", "runs") == row
        host.host.plugins[0].entries.recover(reason)
    broken = ctrlhost_host(one_controller("runs"), plugin_of(fail, "broken"), listen=LISTEN)
    broken.wait_for(lambda: broken.host.plugins[1].state == "failed")
    page = page_at(broken)
    assert (page.row("plugins", "broken")["State"], page.row("plugins", "broken")["Reason"]) == (
        "✖ failed",
        "no settings",
    )
    assert page.section("verdict")[0].text == "✖ not ready: broken failed: no settings"
    broken.host.stopping.set()
    assert page_at(broken).section("verdict")[0].text.startswith("✖ stopping")


def test_a_paused_controller_says_by_whom_and_since_when(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(one_controller("demo"), listen=LISTEN, controllers={"demo/c": {"paused": True}})
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    (row,) = status_of(host)["controllers"]
    for path in ("/", "/status/controllers/demo/c"):
        page = page_at(host, path)
        assert page.row("controllers", "demo/c")["State"].startswith("▲ paused by the setting `paused` ")
        assert row["paused_since"] in {time.attributes["datetime"] for time in page.root.all("time")}
        assert "ctrlhost resume demo/c" in page.text
    host.client.create(config_map("a"))
    key = host.wait_for(
        lambda: (page := page_at(host, "/status/keys/demo/c?key=default/a")).section("verdict")[0].text and page
    )
    assert key.section("verdict")[0].text.startswith("▲ paused, since ")


def test_a_dry_run_is_on_the_page(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(one_controller("demo"), listen=LISTEN, dry_run=True)
    assert page_at(host).section("verdict")[1].text.startswith("dry run: nothing is written · ")


@behaviour("operations/OP58")
def test_every_link_of_every_page_answers(ctrlhost_host: Any) -> None:
    def with_pages(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("c", fails, For("v1", "ConfigMap", label_selector="mine"))
        plugin.add_page("/", hello)
        plugin.add_page("/deep page", hello)

    def fails(_ctx: ctrlhost.Context, request: Request) -> None:
        raise KeyError(request.name)

    def gone(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_page("/", hello)
        plugin.add_controller("c", quiet, For("v1", "ConfigMap"))
        ended.append(plugin)

    ended: list[ctrlhost.PluginContext] = []
    host = ctrlhost_host(
        plugin_of(with_pages, "shows"), plugin_of(gone, "gone"), one_controller("plain"), listen=LISTEN
    )
    host.client.create(config_map("a", labels=MINE))
    host.wait_for(lambda: page_at(host).rows("errors"))
    assert "/gone/" in page_at(host).links
    host.host.plugins[1].fail("on purpose")
    host.wait_for(lambda: host.host.plugins[1].context is None)
    seen = followed(host)
    assert {"/", "/shows/", "/shows/deep%20page", "/status/plugins/gone", "/status/plugins/plain"} <= seen
    assert {"/status/controllers/shows/c", "/status/keys/shows/c?key=default/a"} <= seen
    assert "/gone/" not in seen


def test_the_errors_and_writes_of_a_plugin_outlast_those_of_a_noisy_one(ctrlhost_host: Any) -> None:
    def fails(ctx: ctrlhost.Context, request: Request) -> None:
        ctx.client.create(config_map(f"{request.name}-copy"))
        raise KeyError("spec")

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("c", fails, For("v1", "ConfigMap", label_selector=plugin.name), workers=4)

    host = ctrlhost_host(plugin_of(setup, "calm"), plugin_of(setup, "noisy"), listen=LISTEN)
    host.client.create(config_map("seldom", labels={"calm": "1"}))
    host.wait_for(lambda: page_at(host).rows("errors"))
    for number in range(60):
        host.client.create(config_map(f"often-{number}", labels={"noisy": "1"}))
    host.wait_for(lambda: len(host.controllers["noisy/c"].history.failing) == 60)
    host.host.plugins[0].controllers[0].pause()
    page = page_at(host)
    assert len(page.rows("errors")) == 10
    assert len(page.rows("last-writes")) == 20
    calm = page_at(host, "/status/plugins/calm")
    assert {row["Key"] for row in calm.rows("errors")} == {"default/seldom"}
    assert {row["For the key"] for row in calm.rows("last-writes")} == {"default/seldom"}
    assert {row["By"] for row in calm.rows("last-writes")} <= {"calm", "calm/c"}
    noisy = page_at(host, "/status/plugins/noisy")
    assert {row["Plugin"] for row in noisy.rows("errors")} == {"noisy"}
    assert {row["By"] for row in noisy.rows("last-writes")} <= {"noisy", "noisy/c"}


def test_a_controller_that_runs_beside_one_that_waits_has_its_own_state(ctrlhost_host: Any) -> None:
    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("runs", quiet, For("v1", "ConfigMap"))
        plugin.add_controller("waits", quiet, For("example.com/v1", "Missing"))

    host = ctrlhost_host(plugin_of(setup), listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "waiting" and host.controllers["demo/runs"].working)

    def states() -> dict[str, str]:
        return {row["Controller"]: row["State"].partition(" ")[2] for row in page_at(host).rows("controllers")}

    assert states() == {"demo/runs": "ok", "demo/waits": "waiting"}
    waiting = {controller["name"]: controller["waiting"] for controller in status_of(host)["controllers"]}
    assert waiting["demo/runs"] is None
    assert waiting["demo/waits"].startswith("Missing (example.com/v1): ")
    host.controllers["demo/runs"].pause("somebody")
    assert states()["demo/runs"].startswith("paused by somebody")
    host.host.plugins[0].fail("on purpose")
    host.wait_for(lambda: host.host.plugins[0].state == "failed")
    assert page_at(host).row("plugins", "demo")["State"].endswith("failed")


def test_a_page_of_a_queue_beyond_its_end_leads_back(ctrlhost_host: Any) -> None:
    broken = threading.Event()
    broken.set()

    def reconcile(_ctx: ctrlhost.Context, request: Request) -> None:
        if broken.is_set() or request.name == "first":
            raise KeyError("spec")

    host = ctrlhost_host(controller(reconcile), listen=LISTEN)
    handle = host.controllers["demo/c"]
    handle.queue.add_many([Request(name, "default") for name in ("first", *map(str, range(119)))])
    host.wait_for(lambda: len(handle.history.failing) == 120)
    path = "/status/controllers/demo/c"
    (following,) = (link for link in page_at(host, path).links if "failing=" in link)
    assert len(page_at(host, following).rows("failing")) == 20
    broken.clear()
    host.wait_for(lambda: list(handle.history.failing) == [Request("first", "default")])
    (row,) = page_at(host, following).section("failing")
    assert row.text == "0 of 1: first"
    (back,) = (link.attributes["href"] for link in row.all("a"))
    assert back == path
    assert page_at(host, path).rows("failing")[0]["Key"] == "default/first"


def test_an_unknown_controller_of_a_plugin_without_controllers_is_not_found(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(plugin_of(lambda _plugin: None, "none"), one_controller("demo"), listen=LISTEN)
    host.wait_for(lambda: {plugin.state for plugin in host.host.plugins} == {"running"})
    for path in ("/status/controllers/none/zzz", "/status/controllers/demo/zzz", "/status/keys/none/zzz?key=a"):
        assert page_at(host, path).status == 404
    host.host.plugins[1].fail("on purpose")
    host.wait_for(lambda: host.host.plugins[1].context is None)
    # Nobody knows its controllers now.
    assert page_at(host, "/status/controllers/demo/c").status == 200


@behaviour("operations/OP58")
def test_every_link_to_the_bundled_plugins_answers(ctrlhost_host: Any) -> None:
    names = ("hostname", "naming", "ingress-status", "bitcoin")
    host = ctrlhost_host(*names, settings={"hostname": {"rest_port": 0}}, install_crds=True, listen=LISTEN)
    host.wait_for(lambda: {plugin.state for plugin in host.host.plugins} <= {"running", "waiting"})
    seen = followed(host)
    assert {f"/status/plugins/{name}" for name in names} | {"/hostname/", "/naming/", "/ingress-status/"} <= seen


def followed(host: Any) -> set[str]:
    """Return the links that were followed from page to page, all of which have answered."""
    seen, todo = {"/"}, ["/"]
    while todo:
        path = todo.pop()
        page = page_at(host, path)
        assert page.status == 200, path
        targets = {element.attributes.get("id") for element in page.root.all()}
        for link in page.links:
            if link.startswith("#"):
                assert link[1:] in targets
            elif link not in seen:
                seen.add(link)
                if link.startswith("/status/"):
                    todo.append(link)
                else:
                    assert get(host, link, **HTML)[0] == 200, link
    return seen


@behaviour("operations/OP59")
def test_an_informer_names_its_users_and_what_each_of_them_costs(slow_map: tuple[Any, threading.Event]) -> None:
    host, _ = slow_map

    def users() -> str:
        return page_at(host).row("informers", "configmaps")["Users, what each reads, and what it costs"]

    host.wait_for(lambda: "other/slow : 0.00 s, handlers 0.00 s, 3 pending" in users())
    text = users()
    assert "demo/all : 0.00 s, handlers 0.00 s, 0 pending" in text
    assert "demo/some (labels=mine reads=metadata): 0.00 s, handlers 0.00 s, 0 pending" in text
    row = page_at(host).row("informers", "configmaps")
    assert (row["Selection"], row["State"]) == ("all", "● watching")
    assert page_at(host, "/status/plugins/other").row("informers", "configmaps")["Selection"] == "all"


@behaviour("operations/OP63")
def test_the_page_of_a_key_says_why_it_is_not_reconciled(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    def reconcile(ctx: ctrlhost.Context, request: Request) -> Result | None:
        match request.name:
            case "failing":
                raise KeyError("spec")
            case "later":
                return Result(requeue_after=60)
            case "given-up":
                raise TerminalError("the name is taken")
            case "writes":
                ctx.client.patch("v1", "ConfigMap", "other", "default", {"data": {"a": "1"}})
        return None

    plugin = controller(reconcile, For("v1", "ConfigMap", label_selector="mine"))
    host = ctrlhost_host(plugin, clock=manual_clock, listen=LISTEN)
    host.client.create(config_map("other"))
    for name in ("failing", "later", "given-up", "writes"):
        host.client.create(config_map(name, labels=MINE))
    host.wait_for(lambda: host.controllers["demo/c"].status().runs >= 4)
    host.run_until_idle()

    def page(name: str) -> Any:
        return page_at(host, f"/status/keys/demo/c?key=default/{name}")

    failing = page("failing")
    (verdict,) = (row.text for row in failing.section("verdict"))
    assert verdict.startswith("✖ backing off, since ")
    assert "), next run in " in verdict
    error, times, trace = (row.text for row in failing.section("error"))
    assert error.startswith("KeyError: 'spec' (tests/host/status/test_pages.py:")
    (run,) = failing.rows("runs")
    assert run["Result"] == "✖ error KeyError: 'spec'"
    assert times.endswith(f"1 in a row, reconcile {run['Reconcile']}")
    assert 'raise KeyError("spec")' in trace
    assert page("later").section("verdict")[0].text.startswith("● delayed, next run in ")
    assert page("given-up").section("verdict")[0].text.startswith("✖ gave up, since ")
    assert page("writes").section("verdict")[0].text.startswith("● done, since ")
    (write,) = page("writes").rows("last-writes")
    assert (write["Verb"], write["Object"], write["Code"]) == ("patch", "configmaps default/other", "● 200")
    assert write["Reconcile"] == page("writes").rows("runs")[0]["Reconcile"]
    assert page("later").rows("last-writes") == []
    assert page("missing").section("verdict")[0].text == "▲ not in the cache"
    host.host.stopping.set()
    assert page("later").section("verdict")[0].text.startswith("▲ host stopping")


def test_pages_of_what_is_unknown_name_the_nearest(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(one_controller("demo"), listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    for path, status, text in (
        ("/status/plugins/dem0", 404, "hint: did you mean `demo`?"),
        ("/status/controllers/demo/d", 404, "hint: did you mean `demo/c`?"),
        ("/status/keys/demo/d?key=a", 404, "hint: did you mean `demo/c`?"),
        ("/status/keys/demo/c", 400, "hint: write it as `key=NAMESPACE/NAME`"),
        ("/status/controllers/demo/c?queued=x", 400, "error: invalid cursor `x`"),
        ("/status/nothing", 404, "error: no page at /status/nothing"),
    ):
        page = page_at(host, path)
        assert (page.status, text in page.text) == (status, True), path
        # It is not loaded again and again.
        assert not list(page.root.all("script"))
        assert not list(page.root.all("noscript"))
    for path in ("/api/", "/api/v2/status", "/admin/v1/pause", "/api/v1/events"):
        status, headers, body = get(host, path)
        assert (status, headers["Content-Type"]) == (404, "application/json"), path
        assert {b'"error"', b'"hint"'} == {key for key in (b'"error"', b'"hint"') if key in body}
    assert get(host, "/nothing")[::2] == (404, b"no page at /nothing\n")


@behaviour("operations/OP64")
@behaviour("operations/OP102")
def test_writes_and_errors_are_on_the_page_with_the_reconcile(ctrlhost_host: Any, faults: Any, sandbox: Any) -> None:
    proxy = faults(sandbox)
    answers = {"create": None, "patch": None, "conflict": 409, "busy": 429, "broken": 500}
    done: dict[str, str] = {}

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        done[request.name] = ctx.reconcile_id
        if request.name == "create":
            ctx.client.create(config_map("made", "default"))
        else:
            ctx.client.patch("v1", "ConfigMap", request.name, "default", {"data": {"a": "1"}})

    for name, code in answers.items():
        if code is not None:
            proxy.next(Fault.answer(code, retry_after=7), verb="patch", resource="configmaps", name=name)
    plugin = controller(reconcile, For("v1", "ConfigMap", label_selector="mine"))
    host = ctrlhost_host(
        plugin, sandbox=sandbox, through=proxy, listen=LISTEN, controllers={"demo/c": {"base_delay": "10m"}}
    )
    for name in answers:
        host.client.create(config_map(name, labels=MINE))
    host.wait_for(
        lambda: {row["Key"] for row in page_at(host).rows("errors")} >= {"default/conflict", "default/broken"}
    )
    page = page_at(host)
    counts = {(row["Verb"], row["Resource"], row["Code"]) for row in page.rows("writes")}
    assert counts >= {("create", "configmaps", "● 201"), ("patch", "configmaps", "● 200")}
    assert counts >= {("patch", "configmaps", f"✖ {code}") for code in (409, 429, 500)}
    assert "throttled for 0.0 s" in page.section("about")[0].text
    write = next(row for row in page.rows("last-writes") if row["Object"] == "configmaps default/conflict")
    assert (write["Code"], write["By"], write["For the key"]) == ("✖ 409", "demo/c", "default/conflict")
    assert write["Reconcile"] == done["conflict"]
    assert len(page.rows("last-writes")) <= 20
    (error,) = (row for row in page.rows("errors") if row["Key"] == "default/conflict")
    assert (error["Plugin"], error["Reconcile"]) == ("demo", done["conflict"])
    assert "(tests/host/status/test_pages.py:" in error["Error"]
    failing = page.row("failing", "default/conflict")
    assert (failing["Failures"], failing["Reconcile"]) == ("1", done["conflict"])
    assert failing["Next retry"].endswith(" s")


@behaviour("operations/OP65")
def test_the_page_names_the_holder_and_the_own_role_of_each_lease(ctrlhost_host: Any) -> None:
    options = {"leader_elect": True, "leader_elect_plugins": ["two"], "listen": LISTEN}
    plugins = [one_controller("one"), one_controller("two")]
    leader = ctrlhost_host(*plugins, **options)
    leader.wait_for(lambda: all(lease.mine for lease in leader.host.leadership.leases()))
    standby = ctrlhost_host(*plugins, sandbox=leader.sandbox, **options)
    identity = leader.host.leadership.identity
    standby.wait_for(lambda: all(lease.holder == identity for lease in standby.host.leadership.leases()))
    for host, role, state in ((leader, "● leads", "leads "), (standby, f"{NONE} standby", f"{identity} leads ")):
        page = page_at(host)
        rows = page.rows("leases")
        assert sorted(row["Plugins"] for row in rows) == ["one", "two"]
        assert {(row["Role"], row["Holder"]) for row in rows} == {(role, identity)}
        assert page.section("verdict")[1].text.startswith(state)
        assert [row["Plugins"] for row in page_at(host, "/status/plugins/two").rows("leases")] == ["two"]
    alone = page_at(ctrlhost_host(one_controller("one"), listen=LISTEN))
    assert alone.section("leases") == []
    assert alone.section("verdict")[1].text.startswith("no leader election · ")


@behaviour("operations/OP66")
def test_a_long_queue_is_shown_a_hundred_keys_at_a_time(long_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    host, queue = long_queue, long_queue.controllers["demo/c"].queue
    # No page takes a snapshot of the whole queue, or lists a cache.
    forbidden = pytest.fail
    monkeypatch.setattr(type(queue), "summary", lambda *_: forbidden("a summary of the queue"), raising=False)
    monkeypatch.setattr("ctrlhost.informers.lister.Lister.list", lambda *_, **__: forbidden("a list of the cache"))
    assert page_at(host).row("controllers", "demo/c")["Depth"] == "100,000"
    keys, path = [], "/status/controllers/demo/c"
    for _ in range(3):
        page = page_at(host, path)
        assert page.status == 200
        rows = page.rows("queued")
        assert len(rows) == 100
        keys += [row["Key"] for row in rows]
        more = page.section("queued")[-1]
        assert more.text.startswith("100 of 100,000: ")
        (path,) = (link.attributes["href"] for link in more.all("a") if link.text == "next")
    assert keys == [f"default/a{number}" for number in range(300)]
    assert [link.text for link in page_at(host, path).section("queued")[-1].all("a")] == ["first", "next"]


def test_the_page_of_a_controller_has_plots_parts_and_runs(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    release = threading.Event()

    def reconcile(_ctx: ctrlhost.Context, request: Request) -> Result | None:
        match request.name:
            case "later":
                return Result(requeue_after=60)
            case "fails":
                raise KeyError("spec")
            case "long":
                release.wait(60)
        return None

    plugin = controller(reconcile, For("v1", "ConfigMap", label_selector="mine"))
    host = ctrlhost_host(
        plugin, clock=manual_clock, listen=LISTEN, controllers={"demo/c": {"slow_after": "1h", "base_delay": "10m"}}
    )
    path = "/status/controllers/demo/c"
    try:
        for name in ("later", "fails"):
            host.client.create(config_map(name, labels=MINE))
        host.wait_for(lambda: host.controllers["demo/c"].status().runs == 2)
        for name in ("long", "waits"):
            host.client.create(config_map(name, labels=MINE))
            host.wait_for(lambda: page_at(host, path).rows("processing"))
        page = host.wait_for(lambda: (candidate := page_at(host, path)).rows("queued") and candidate)
        assert [row["Key"] for row in page.rows("processing")] == ["default/long"]
        assert [row["Key"] for row in page.rows("queued")] == ["default/waits"]
        assert {row["Key"] for row in page.rows("delayed")} == {"default/later", "default/fails"}
        (failing,) = page.rows("failing")
        assert (failing["Key"], failing["Failures"]) == ("default/fails", "1")
        runs = page.rows("runs")
        assert {row["Key"]: row["Result"] for row in runs} == {
            "default/later": "● requeue_after",
            "default/fails": "✖ error KeyError: 'spec'",
        }
        assert all(row["Began"] and row["Duration"] and row["Reconcile"] for row in runs)
        figures = [next(figure.all("figcaption")).text for figure in page.section("plots")]
        titles = ("Runs per second", "Errors per second", "Duration", "Depth of the queue")
        assert [text for text, title in zip(figures, titles, strict=True) if not text.startswith(title)] == []
        assert all(list(figure.all("svg")) or "no samples yet" in figure.text for figure in page.section("plots"))
        assert page.row("controllers", "demo/c")["Active"] == "1/1"
    finally:
        release.set()


def test_the_page_of_a_plugin_has_rights_restarts_and_time(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(one_controller("demo"), listen=LISTEN)
    page = host.wait_for(lambda: (candidate := page_at(host, "/status/plugins/demo")).rows("rights") and candidate)
    rules = {row["Rule"]: row["State"] for row in page.rows("rights")}
    watched = '{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]} to a ClusterRole'
    assert rules[watched] == "● declared"
    facts = " ".join(fact.text for fact in page.section("facts"))
    assert "in the process of the host." in facts
    assert "Processor time: " in facts
    assert "Restarts: 0." in facts
    assert "Pages: none" in facts
    assert [row["Controller"] for row in page.rows("controllers")] == ["demo/c"]


def test_a_missing_right_is_on_the_page(ctrlhost_host: Any) -> None:
    wanted = [ctrlhost.Permission("", ["nodes"], ["delete"])]
    plugin = plugin_of(lambda _plugin: None, permissions=lambda: wanted)
    host = ctrlhost_host(plugin, listen=LISTEN, least_privilege=True)
    host.host._rights.stop()
    host.host._rights._thread.join()
    host.host.plugins[0].missing_rights = ("add nothing",)
    page = page_at(host, "/status/plugins/demo")
    assert page.rows("rights")[0] == {"Rule": "add nothing", "State": "✖ missing"}
    assert page_at(host).row("plugins", "demo")["Reason"] == "1 right missing"


@behaviour("operations/OP49")
def test_hostile_text_is_shown_as_text_in_one_line(ctrlhost_host: Any) -> None:
    hostile = "<script>alert(1)</script> \x1b[31mred {{7*7}} \"'&amp;\nsecond line \u202egnp\x00 /data/\udcff.txt"

    def reconcile(_ctx: ctrlhost.Context, _request: Request) -> None:
        raise RuntimeError(hostile)

    handles: list[Any] = []
    plugin = plugin_of(lambda plugin: handles.append(plugin.add_controller("c", reconcile)))
    host = ctrlhost_host(plugin, listen=LISTEN)
    key = "<img src=x onerror=alert(1)> a\nb"
    handles[0].enqueue(key)
    host.wait_for(lambda: page_at(host).rows("errors"))
    page = page_at(host)
    paths = ["/", "/status/plugins/demo", "/status/controllers/demo/c"]
    paths += [link for link in page.links if link.startswith("/status/keys/")][:1]
    assert len(paths) == 4
    for path in paths:
        page = page_at(host, path)
        assert page.status == 200
        assert not [script for script in page.root.all("script") if script.text]
        assert not list(page.root.all("img"))
        assert not [char for char in page.source if (ord(char) < 0x20 and char != "\n") or char in "\x7f\u202e"]
        # The document has no line break but its last one.
        assert page.source.count("\n") == 1
        assert "<script>alert(1)</script> " in page.text
        assert "{{7*7}}" in page.text
        assert " /data/\ufffd.txt" in page.text
    (error,) = {entry["message"] for entry in status_of(host)["errors"]}
    assert error.endswith(" /data/\ufffd.txt")
    handles[0].enqueue("\ud800")
    host.wait_for(lambda: "\ufffd" in {entry["key"] for entry in status_of(host)["failing"]})
    assert "\ufffd" in {item["key"] for item in page_of(host, "demo/c", part="failing")["items"]}
    assert "\ufffd" in {row["Key"] for row in page_at(host).rows("failing")}
    status, _, queues = get(host, "/debug/queues")
    assert (status, json.loads(queues)[0]["controller"]) == (200, "demo/c")
    assert any("[31mred" in row["Error"] for row in page_at(host).rows("errors"))
    with_key = page_at(host).rows("errors")[-1]["Key"]
    assert with_key == "<img src=x onerror=alert(1)> a b"


@behaviour("operations/OP49")
def test_a_detail_that_cannot_be_encoded_does_not_hide_the_status(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(one_controller("demo"), listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    host.host.plugins[0].entries.degrade("slow", "reads /data/\udcff.txt")
    (plugin,) = status_of(host)["plugins"]
    assert plugin["degraded"][0]["message"] == "reads /data/\ufffd.txt"
    assert "reads /data/\ufffd.txt" in page_at(host).text


@behaviour("operations/OP58")
def test_a_controller_has_its_links_whatever_its_name_is(ctrlhost_host: Any) -> None:
    names = ("größe", "a&b", "a+b", "a;b=c", "a'b")

    def fails(_ctx: ctrlhost.Context, _request: Request) -> None:
        raise TerminalError("spec")

    handles: list[Any] = []
    plugin = plugin_of(lambda plugin: handles.extend(plugin.add_controller(name, fails) for name in names))
    host = ctrlhost_host(plugin, listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    for handle in handles:
        handle.enqueue("x?y#z")
        handle.enqueue("")
    keys = ["x?y#z"] * len(names) + [NONE] * len(names)
    host.wait_for(lambda: sorted(row["Key"] for row in page_at(host).rows("errors")) == keys)
    assert "empty" in {row["Key"] for row in page_at(host).rows("failing")}
    seen = followed(host)
    for name in names:
        path = f"/status/controllers/demo/{quote(name)}"
        assert {path, f"/status/keys/demo/{quote(name)}?key=x%3Fy%23z"} <= seen
        for url in (path, f"{path}/"):
            assert page_at(host, url).row("controllers", f"demo/{name}")
    assert not [link for link in seen if link.endswith("?key=")]


def test_many_documents_at_once_are_all_answered(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(one_controller("demo"), listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    page = Reports.page
    arrived, together = threading.Semaphore(0), threading.Semaphore(0)

    def slow(*args: Any) -> Any:
        # As many as there are threads are rendered when the others arrive.
        arrived.release()
        together.acquire(timeout=60)
        return page(*args)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(24) as clients:
        patch.setattr(Reports, "page", slow)
        answers = [clients.submit(page_at, host) for _ in range(24)]
        assert all(arrived.acquire(timeout=60) for _ in range(8))
        together.release(24)
        assert [answer.result().status for answer in answers] == [200] * 24
