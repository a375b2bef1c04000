"""Indexes, typed caches, reports, pages, checks and commands of a `ctrlhost.Plugin`."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner
from starlette.responses import PlainTextResponse

import ctrlhost
from ctrlhost import For, Object
from ctrlhost.supervisor.loader import PluginManager
from tests.support.declared import declared
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

MINE = For("v1/ConfigMap", label_selector="mine")


def secret(name: str, namespace: str = "default", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


@ctrlhost.resource("v1/Secret")
class Keys(msgspec.Struct, frozen=True):
    metadata: ctrlhost.ObjectMeta


@pytest.mark.behaviour("authoring/AU23")
@pytest.mark.parametrize("declares", [True, False], ids=["declared-kind", "kind-of-the-index-only"])
def test_an_index_finds_the_objects_as_they_change(ctrlhost_host, declares: bool) -> None:
    plugin, name_lists = declared(), []

    @plugin.index(Keys)
    def by_team(keys: Keys) -> list[str] | None:
        team = keys.metadata.labels.get("team")
        return [team] if team else None

    @plugin.controller(MINE, watches=[Keys] if declares else [])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        name_lists.append(sorted(item.metadata.name for item in ctx.cache(Keys).by_index(by_team, "red")))
        with pytest.raises(KeyError, match="no index `other`"):
            ctx.cache(Keys).by_index(other, "red")

    def other(keys: Keys) -> list[str]:
        return []

    host = ctrlhost_host(plugin)
    host.client.create(secret("one", team="red"))
    host.client.create(secret("two", "kube-system", team="red"))
    host.client.create(secret("three", team="blue"))
    host.run_until_idle()
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert name_lists.pop() == ["one", "two"]
    host.client.patch("v1", "Secret", "three", "default", {"metadata": {"labels": {"team": "red"}}})
    host.client.delete("v1", "Secret", "one", "default")
    host.run_until_idle()
    host.client.patch("v1", "ConfigMap", "ann", "default", {"data": {"again": "1"}})
    host.run_until_idle()
    assert name_lists.pop() == ["three", "two"]
    assert host.controllers["p/configmap"].status().errors == 0
    assert by_team(Keys(ctrlhost.ObjectMeta(labels={"team": "red"}))) == ["red"]


@pytest.mark.behaviour("authoring/AU23")
def test_an_index_of_another_kind_is_none_of_this_one_though_the_names_are_equal(ctrlhost_host) -> None:
    plugin, names = declared(), []

    def by_team(obj: Any) -> list[str]:
        return ["red"]

    of_secrets, of_services = plugin.index("v1/Secret")(by_team), plugin.index("v1/Service")(by_team)

    @plugin.controller(MINE)
    async def reconcile(ctx: ctrlhost.AsyncContext, obj: Object) -> None:
        names.extend(item.name for item in await ctx.cache("v1/Secret").by_index(of_secrets, "red"))
        with pytest.raises(KeyError, match="<index by_team of v1/Service> is not an index of v1/Secret"):
            await ctx.cache("v1/Secret").by_index(of_services, "red")

    host = ctrlhost_host(plugin, start=False)
    host.client.create(secret("one"))
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.start().run_until_idle()
    assert names == ["one"]
    assert host.controllers["p/configmap"].status().errors == 0


def test_the_cache_is_relative_to_the_object_and_knows_the_scope_of_a_kind(ctrlhost_host) -> None:
    plugin, names = declared(), []

    @plugin.controller(MINE, watches=["v1/Secret", "v1/Namespace"])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        secrets, namespaces = ctx.cache("v1/Secret"), ctx.cache(("v1", "Namespace"))
        names.append(
            {
                "own": sorted(secret.name for secret in secrets.list()),
                "other": sorted(secret.name for secret in secrets.list("kube-system")),
                "all": sorted(secret.name for secret in secrets.list(None, "team=red")),
                "get": (secrets.get("one") is not None, secrets.get("one", "kube-system") is None),
                "namespace": namespaces.get("kube-system") is not None,
                "namespaces": len(namespaces.list()) > 1,
            }
        )
        with pytest.raises(ctrlhost.UndeclaredRead, match="reads v1/Service without declaring it") as caught:
            ctx.cache("v1/Service")
        hint = 'add it to `@plugin.controller(…, watches=["v1/Service"])`, or to `owns=` for `ctx.ensure`'
        assert caught.value.hint == hint

    host = ctrlhost_host(plugin)
    host.client.create(secret("one", team="red"))
    host.client.create(secret("two", "kube-system", team="red"))
    host.run_until_idle()
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert names == [
        {
            "own": ["one"],
            "other": ["two"],
            "all": ["one", "two"],
            "get": (True, True),
            "namespace": True,
            "namespaces": True,
        }
    ]
    assert host.controllers["p/configmap"].status().errors == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_a_cluster_scoped_object_names_the_namespace_that_it_reads(ctrlhost_host, is_async: bool) -> None:
    plugin, results = declared(), []

    def read(ctx: Any) -> None:
        secrets = ctx.cache("v1/Secret")
        with pytest.raises(ValueError, match=r"v1/Secret is namespaced: `get\('one', namespace=…\)`"):
            secrets.get("one")
        results.append((secrets.get("one", "default").name, ctx.cache("v1/Node").get("none")))

    async def reconcile(ctx: Any, obj: Object) -> None:
        read(ctx)

    def reconcile_on_a_thread(ctx: Any, obj: Object) -> None:
        read(ctx)

    source = For("v1/Namespace", field_selector="metadata.name=default")
    plugin.controller(source, watches=["v1/Secret", "v1/Node"])(reconcile if is_async else reconcile_on_a_thread)
    host = ctrlhost_host(plugin, start=False)
    host.client.create(secret("one"))
    host.start().run_until_idle()
    assert results == [("one", None)]
    assert host.controllers["p/namespace"].status().errors == 0


def test_a_kind_that_is_not_owned_has_no_owned_objects(ctrlhost_host) -> None:
    plugin, told = declared(), []

    @plugin.index(Keys)
    def by_team(keys: Keys) -> list[str]:
        return []

    @plugin.controller(MINE, owns=["v1/Secret"], watches=["v1/Service"])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        for read in (
            lambda: ctx.cache("v1/Service").owned(),
            lambda: ctx.cache("v1/Secret").by_index("by_name", "one"),
        ):
            with pytest.raises(KeyError) as caught:
                read()
            told.append(caught.value.args[0])

    host = ctrlhost_host(plugin)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    host.run_until_idle()
    assert told == [
        "v1/Service is not in `owns` of the controller",
        "no index `by_name` is declared for this source; it declares ['by_team']",
    ]


@pytest.fixture
def served(ctrlhost_host) -> tuple[Any, threading.Event]:
    """A host with a plugin that serves a report, a page and a check."""
    plugin = declared()
    healthy = threading.Event()
    healthy.set()

    @plugin.setup
    def setup(host: ctrlhost.PluginContext) -> dict[str, str]:
        return {"b": "<script>alert(1)</script>", "a": "1"}

    @plugin.report("/leases", title="Leases & more")
    def leases(host: ctrlhost.PluginContext) -> list[dict[str, str]]:
        return [{"name": name, "holder": holder} for name, holder in host.state.items()]

    @plugin.report("/later")
    async def later(host: ctrlhost.PluginContext) -> dict[str, str]:
        with pytest.raises(ctrlhost.BlockingCall, match="AsyncClient"):
            host.client.get("v1", "Namespace", "default")
        namespace = await ctrlhost.AsyncClient(host.client).get("v1", "Namespace", "default")
        return {"found": namespace["kind"]}

    @plugin.page("/page")
    def page(host: ctrlhost.PluginContext) -> Any:
        return PlainTextResponse(f"page of {host.name}")

    @plugin.health("lights")
    def lights(host: ctrlhost.PluginContext) -> None:
        if not healthy.is_set():
            raise RuntimeError("dark")

    host = ctrlhost_host(plugin, listen="127.0.0.1:0")
    return host, healthy


def get(host: Any, path: str, accept: str = "*/*") -> tuple[int, str]:
    request = urllib.request.Request(f"http://{host.host.address}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.behaviour("authoring/AU24")
def test_a_report_is_a_table_or_json(served: Any) -> None:
    host, _ = served
    status, page = get(host, "/p/leases", "text/html")
    assert status == 200
    assert "<title>Leases &amp; more</title>" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    assert page.index("<td>a<td>1") < page.index("<td>b<td>")
    rows = [{"name": "b", "holder": "<script>alert(1)</script>"}, {"name": "a", "holder": "1"}]
    assert json.loads(get(host, "/p/leases?format=json")[1]) == rows
    assert json.loads(get(host, "/p/leases", "application/json")[1]) == rows
    assert json.loads(get(host, "/p/later?format=json")[1]) == {"found": "Namespace"}


def test_pages_and_checks_get_the_context_of_the_plugin(served: Any) -> None:
    host, healthy = served
    assert get(host, "/p/page") == (200, "page of p")
    eventually(lambda: get(host, "/healthz")[0] == 200)
    healthy.clear()
    eventually(lambda: "dark" in get(host, "/healthz?verbose")[1])


def test_the_functions_of_a_kind_run_in_the_order_of_declaration(ctrlhost_host) -> None:
    plugin, calls = declared(), []
    for name in ("setup", "synced", "elected", "stopping"):
        for number in (1, 2):
            getattr(plugin, name)(lambda host, name=name, number=number: calls.append(f"{name} {number}"))

    @plugin.task(name="once")
    def task(host: ctrlhost.PluginContext, stop: threading.Event) -> None:
        calls.append("task")

    host = ctrlhost_host(plugin)
    eventually(lambda: "task" in calls)
    host.stop()
    calls.remove("task")
    assert calls == [
        "setup 1",
        "setup 2",
        "synced 1",
        "synced 2",
        "elected 1",
        "elected 2",
        "stopping 1",
        "stopping 2",
    ]


def test_a_shutdown_calls_each_function_though_one_raises(ctrlhost_host, caplog) -> None:
    plugin, calls = declared(), []

    @plugin.stopping
    def first(host: ctrlhost.PluginContext) -> None:
        calls.append("first")
        raise RuntimeError("the first does not close")

    @plugin.stopping
    def second(host: ctrlhost.PluginContext) -> None:
        calls.append("second")

    host = ctrlhost_host(plugin)
    host.stop()
    assert calls == ["first", "second"]
    (logged,) = (record.getMessage() for record in caplog.records if "does not close" in record.getMessage())
    assert logged.startswith(
        "plugin p: ctrlhost_stopping: RuntimeError: the first does not close (tests/host/declarative/test_reads.py:"
    )


def test_permissions_and_commands_are_those_of_the_hooks() -> None:
    class Settings(msgspec.Struct):
        namespace: str = "there"

    plugin = declared(settings=Settings)
    plugin.permission("", ["pods"], ["get"], resource_names=["one"], namespace="here")

    @plugin.permission
    def more(settings: Settings) -> list[ctrlhost.Permission]:
        return [ctrlhost.Permission("apps", ["deployments"], ["create"], namespace=settings.namespace)]

    @plugin.command("hello", help="Say hello.")
    @click.argument("name")
    def hello(name: str) -> None:
        click.echo(f"hello {name}")

    loaded = PluginManager().register("p", plugin)
    assert loaded.permissions(Settings()) == [
        ctrlhost.Permission("", ["pods"], ["get"], ("one",), "here"),
        ctrlhost.Permission("apps", ["deployments"], ["create"], namespace="there"),
    ]
    # One by itself is as good as a list.
    single = declared()
    single.permission(lambda settings: ctrlhost.Permission("", ["pods"], ["get"]))
    assert PluginManager().register("p", single).permissions(None) == [ctrlhost.Permission("", ["pods"], ["get"])]
    group = click.Group("p")
    loaded.commands(group)
    assert CliRunner().invoke(group, ["hello", "ann"]).output == "hello ann\n"


@pytest.mark.parametrize("returned", [None, ["pods"], "pods"])
def test_a_function_that_returns_no_permissions_is_named_with_its_place(returned: Any) -> None:
    plugin = declared()

    @plugin.permission
    def more(settings: None) -> Any:
        return returned

    text = f"test_reads.py:{more.__code__.co_firstlineno}: more: returned {returned!r}; return a list of"
    with pytest.raises(ctrlhost.PluginLoadError, match=re.escape(text)) as caught:
        PluginManager().register("p", plugin).permissions(None)
    assert caught.value.plugin == "p"


def test_a_page_without_an_application_fails_the_set_up_with_its_place(ctrlhost_host) -> None:
    plugin = declared()

    @plugin.page("/page")
    def page(host: ctrlhost.PluginContext) -> None:
        pass

    host = ctrlhost_host(plugin, start=False)
    host.host.start()
    host.wait_for(lambda: host.host.plugins[0].state == "failed")
    line = page.__code__.co_firstlineno
    assert f"test_reads.py:{line}: page: returned None, which is no ASGI" in host.host.plugins[0].reason


@pytest.mark.behaviour("findings3/NA15")
@pytest.mark.parametrize(
    ("owned", "used"), [("v1/Secret", "secret"), ("v1/Secret", "secrets"), ("v1/Pod", "secret"), ("v1/Pod", "Secret")]
)
def test_the_hint_for_an_undeclared_kind_names_it_as_kubernetes_does(ctrlhost_host: Any, owned: str, used: str) -> None:
    plugin, hints = declared(), []

    @plugin.controller(MINE, owns=[owned])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        for use in (
            lambda: ctx.ensure({"apiVersion": "v1", "kind": used, "metadata": {"name": "a"}}),
            lambda: ctx.prune(f"v1/{used}"),
            lambda: ctx.cache(f"v1/{used}"),
            lambda: ctx.lister("v1", used),
        ):
            with pytest.raises(ctrlhost.UndeclaredRead) as refused:
                use()
            hints.append(refused.value.hint or "")

    host = ctrlhost_host(plugin)
    host.client.create(config_map("a", labels={"mine": ""}))
    host.run_until_idle()
    assert len(hints) == 4
    for hint in hints:
        if owned == "v1/Secret":
            assert hint == "did you mean `Secret`?"
        else:
            assert '"v1/Secret"' in hint or '"v1", "Secret"' in hint


@pytest.mark.behaviour("findings3/NA15")
def test_a_misspelt_kind_is_waited_for_with_the_one_that_was_meant(ctrlhost_host: Any) -> None:
    plugin = declared()

    @plugin.controller(MINE, owns=["v1/secret"])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None: ...

    host = ctrlhost_host(plugin, start=False)
    host.start()
    eventually(lambda: "did you mean `Secret`?" in str(host.host.plugins[0].reason))
