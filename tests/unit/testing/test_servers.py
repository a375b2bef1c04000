"""The API server that tests run on, and its options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import ConfigError, For, Request
from ctrlhost.testing import HostUnderTest, NotSettled
from tests.support.objects import crd
from tests.support.plugin_modules import config_map, plugin_of

behaviour = pytest.mark.behaviour
MINE = For("v1", "ConfigMap", label_selector="mine")
ROOT = Path(__file__).parents[3]


def copier() -> Any:
    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        if request.name.startswith("bad"):
            raise ctrlhost.TerminalError("bad name")
        if (obj := ctx.get(request)) is not None and obj.get_path("data", "copy") is None:
            patch = {"data": {"copy": "yes"}}
            ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, patch)

    return plugin_of(lambda plugin: plugin.add_controller("c", reconcile, MINE))


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """Run a server that knows nothing of the tests."""
    with Sandbox(rbac=True) as server:
        yield server


def ctrlhost_namespaces(server: Sandbox) -> list[str]:
    """Return the namespaces of tests."""
    client = ctrlhost.Client.load(server.kubeconfig)
    names = [obj["metadata"]["name"] for obj in client.list("v1", "Namespace")]
    client.close()
    return [name for name in names if name.startswith("ctrlhost-test-")]


def run_pytest(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder in a process of their own, as their author would."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CTRLHOST", "KUBE"))}
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(command, cwd=folder, env=kept | environment, capture_output=True, text=True, check=False)


@behaviour("authoring/AT11")
@pytest.mark.parametrize("form", ["path", "text", "sandbox", "object"])
def test_a_server_is_a_path_a_sandbox_or_has_a_kubeconfig(ctrlhost_host, shared: Sandbox, form: str) -> None:
    forms: dict[str, Any] = {
        "path": shared.kubeconfig,
        "text": str(shared.kubeconfig),
        "sandbox": shared,
        "object": SimpleNamespace(kubeconfig=shared.kubeconfig),
    }
    host = ctrlhost_host(copier(), server=forms[form])
    host.apply(config_map("ann") if form == "sandbox" else {**config_map("ann"), "metadata": {"name": "ann"}})
    host.patch("v1/ConfigMap", "ann", {"metadata": {"labels": {"mine": "1"}}})
    host.settle()
    assert host.get("v1/ConfigMap", "ann")["data"] == {"copy": "yes"}
    if form == "sandbox":
        assert (host.sandbox, host.namespace) == (shared, "default")
        host.delete("v1/ConfigMap", "ann")
        return
    assert re.fullmatch("ctrlhost-test-[0-9a-f]{8}", host.namespace)
    assert host.get("v1/ConfigMap", "ann").namespace == host.namespace
    with pytest.raises(RuntimeError, match="the host runs on a real API server"):
        _ = host.sandbox
    assert "namespace: default\n" in host.snapshot("v1/ConfigMap")
    assert host.snapshot("v1/ConfigMap").count("kind: ConfigMap") == 1


def test_hosts_of_a_test_share_the_namespace_of_a_server(ctrlhost_host, shared: Sandbox) -> None:
    first, second = (ctrlhost_host(plugin_of(lambda plugin: None), server=shared.kubeconfig) for _ in range(2))
    assert first.namespace == second.namespace
    assert first.namespace in ctrlhost_namespaces(shared)


def test_failures_and_retries_on_a_real_server(ctrlhost_host, shared: Sandbox, manual_clock) -> None:
    host = ctrlhost_host(copier(), server=shared.kubeconfig, clock=manual_clock)
    host.faults.next("patch", ctrlhost.ServerError("not now"))
    host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bob", "labels": {"mine": "1"}}})
    with pytest.raises(NotSettled, match=r"demo/c: key ctrlhost-test-\w+/bob failed, attempt 1"):
        host.settle()
    host.settle(through="1s")
    host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad", "labels": {"mine": "1"}}})
    with pytest.raises(NotSettled, match="bad name"):
        host.settle()


def test_a_new_kind_that_a_real_server_refuses_at_first_is_tried_again(
    ctrlhost_host, shared: Sandbox, manual_clock
) -> None:
    seen: list[str] = []
    source = For("new.example.com/v1", "Widget")
    plugin = plugin_of(
        lambda plugin: plugin.add_controller("c", lambda ctx, request: seen.append(request.name), source)
    )
    host = ctrlhost_host(plugin, server=shared.kubeconfig, clock=manual_clock)
    host.settle(allow=("waiting",))
    for verb in ("watch", "list"):
        host.faults.next(verb, ctrlhost.TooManyRequests("not yet"), resource="widgets", times=2)
    widget = {"apiVersion": "new.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    host.apply(crd("new.example.com", "Widget"), widget)
    host.settle()
    assert seen == ["w"]


def test_settle_on_a_real_server_awaits_what_the_test_wrote(ctrlhost_host, shared: Sandbox) -> None:
    seen: list[str] = []
    plugin = plugin_of(lambda plugin: plugin.add_controller("c", lambda ctx, request: seen.append(request.name), MINE))
    host = ctrlhost_host(plugin, server=shared.kubeconfig)
    host.settle()
    with host.faults.hold_watches():
        host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "labels": {"mine": "1"}}})
        host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign"}})
        with pytest.raises(NotSettled, match=r"has not seen the write of ctrlhost-test-\w+/late"):
            host.settle(timeout="500ms")
    host.settle()
    assert seen == ["late"]
    host.delete("v1/ConfigMap", "late")
    host.settle()
    assert seen == ["late", "late"]


def test_a_snapshot_of_several_namespaces_is_that_of_a_sandbox(ctrlhost_host, shared: Sandbox) -> None:
    texts = []
    for options in ({}, {"server": shared.kubeconfig}):
        host = ctrlhost_host(plugin_of(lambda plugin: None), **options)
        for namespace in ("d1", "z"):
            host.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}})
        host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}})
        texts.append(host.snapshot("v1/ConfigMap"))
    assert texts[0] == texts[1]


def test_what_a_test_created_is_deleted_and_nothing_else(shared: Sandbox) -> None:
    from ctrlhost.testing.servers import start_server

    admin = ctrlhost.Client.load(shared.kubeconfig)
    admin.create(crd("kept.example.com", "Kept"))
    widgets = crd("gone.example.com", "Widget", scope="Cluster")
    widget = {"apiVersion": "gone.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    held = {**widget, "metadata": {"name": "held", "finalizers": ["example.com/never"]}}
    plugin = plugin_of(lambda plugin: None, crds=lambda: [crd("host.example.com", "Made")])
    with start_server(shared.kubeconfig) as server:
        host = HostUnderTest(server, (plugin,)).start()
        host.apply(crd("kept.example.com", "Kept"), widgets, widget, held, config_map("elsewhere"))
        host.settle()
        assert admin.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "mades.host.example.com")
        host.stop()
    names = {obj["metadata"]["name"] for obj in admin.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")}
    assert names == {"kepts.kept.example.com"}
    assert admin.find("v1", "ConfigMap", "elsewhere", "default") is None
    assert server.namespace not in ctrlhost_namespaces(shared)
    admin.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "kepts.kept.example.com")
    admin.close()


def test_a_context_is_chosen_by_name(ctrlhost_host, shared: Sandbox, tmp_path: Path) -> None:
    from ctrlhost.testing.real_server import Address, RealServer

    config = yaml.safe_load(shared.kubeconfig.read_text())
    (cluster,), (user,) = config["clusters"], config["users"]
    (tmp_path / "ca.crt").write_text(shared.ca)
    cluster["cluster"] = {"server": shared.url, "certificate-authority": "ca.crt"}
    (tmp_path / "token").write_text(user["user"].pop("token"))
    user["user"]["tokenFile"] = "token"
    config["contexts"].append({"name": "other", "context": {"cluster": "missing", "user": "missing"}})
    config["current-context"] = "other"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    address = Address.of(f"{path}@ctrlhost-sandbox")
    assert address == Address(path, "ctrlhost-sandbox")
    assert address.is_loopback()
    server = RealServer(address)
    assert server.namespace in ctrlhost_namespaces(shared)
    server.clean()
    assert server.namespace not in ctrlhost_namespaces(shared)
    assert not server.kubeconfig.exists()


@behaviour("authoring/AT12")
@pytest.mark.parametrize("context", [None, "admin", "kubernetes-admin@kubernetes"])
@pytest.mark.parametrize("name", ["config", "config@home", "missing"])
def test_paths_and_contexts_may_contain_an_at_sign(tmp_path: Path, name: str, context: str | None) -> None:
    from ctrlhost.testing.real_server import Address

    path = tmp_path / name
    if name != "missing":
        path.touch()
    assert Address.of("@".join(filter(None, (str(path), context)))) == Address(path, context)


@behaviour("authoring/AT10")
@pytest.mark.parametrize("server", ["sandbox", "real"])
def test_exactly_the_right_too_many_is_unused(ctrlhost_host, shared: Sandbox, server: str) -> None:
    rights = [ctrlhost.Permission("", ["configmaps"], ["patch"]), ctrlhost.Permission("", ["secrets"], ["delete"])]

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        obj = ctx.get(request)
        if obj is not None and obj.get_path("data", "copy") is None:
            ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, {"data": {"copy": "yes"}})

    plugin = plugin_of(
        lambda plugin: plugin.add_controller("c", reconcile, MINE),
        permissions=lambda settings: rights,
        crds=lambda: [crd("example.com", "Unused")],
    )
    options: dict[str, Any] = {"server": shared.kubeconfig} if server == "real" else {}
    host = ctrlhost_host(plugin, least_privilege=True, **options)
    assert host.unused_rights() == [("", "configmaps", "patch"), ("", "secrets", "delete")]
    host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ann", "labels": {"mine": "1"}}})
    host.settle()
    assert host.get("v1/ConfigMap", "ann")["data"] == {"copy": "yes"}
    assert host.unused_rights() == [("", "secrets", "delete")]


@behaviour("authoring/AT10")
@pytest.mark.parametrize("server", ["sandbox", "real"])
def test_an_apply_uses_the_right_to_create_if_it_creates(ctrlhost_host, shared: Sandbox, server: str) -> None:
    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        ctx.client.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "copy", "namespace": request.namespace}}
        )

    plugin = plugin_of(
        lambda plugin: plugin.add_controller("c", reconcile, MINE),
        # No server without a certain admission plugin asks for the right to `update` finalizers.
        permissions=lambda settings: [
            ctrlhost.Permission("", ["secrets"], ["create", "patch"]),
            ctrlhost.Permission("", ["configmaps/finalizers"], ["update"]),
        ],
    )
    options: dict[str, Any] = {"server": shared.kubeconfig} if server == "real" else {}
    host = ctrlhost_host(plugin, least_privilege=True, **options)
    assert host.unused_rights() == [("", "secrets", "create"), ("", "secrets", "patch")]
    host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ann", "labels": {"mine": "1"}}})
    host.settle()
    assert host.unused_rights() == []


@pytest.fixture
def away() -> Iterator[Sandbox]:
    """Run a server whose address is not a loopback address."""
    with Sandbox(address="0.0.0.0", expose=True, rbac=True) as server:
        yield server


@behaviour("authoring/AT13")
def test_a_server_on_another_machine_needs_a_word(away: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        dedent("""
            def test_it(ctrlhost_host):
                host = ctrlhost_host(__import__("plugin_under_test"))
                host.apply("apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: a}")
                host.settle()
                assert host.namespace.startswith("ctrlhost-test-")
        """)
    )
    (tmp_path / "plugin_under_test.py").write_text(
        "import ctrlhost\n\n@ctrlhost.hookimpl\ndef ctrlhost_setup(plugin):\n    pass\n"
    )
    option = f"--ctrlhost-server=kubeconfig:{away.kubeconfig}"
    before = len(away.audit)
    refused = run_pytest(tmp_path, option, PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert refused.returncode == 4, refused.stdout
    assert "is not on this machine; plugins under test act on all its objects" in refused.stderr
    assert "hint: `--ctrlhost-server-yes` if that is intended" in refused.stderr
    assert len(away.audit) == before
    allowed = run_pytest(tmp_path, option, "--ctrlhost-server-yes", PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr
    assert "1 passed" in allowed.stdout
    assert len(away.audit) > before
    assert ctrlhost_namespaces(away) == []


@behaviour("authoring/AT13")
@pytest.mark.parametrize(
    ("url", "more", "loopback"),
    [
        ("https://127.0.0.1:6443", {}, True),
        ("https://[::1]:6443", {}, True),
        ("https://localhost:6443", {}, True),
        ("https://0.0.0.0:6443", {}, False),
        ("https://10.0.0.1:6443", {}, False),
        ("https://localhost.example.com", {}, False),
        # The loopback address of the proxy's machine.
        ("https://127.0.0.1:6443", {"proxy-url": "http://proxy.example.com:3128"}, False),
    ],
)
def test_which_addresses_are_on_this_machine(tmp_path: Path, url: str, more: dict[str, str], loopback: bool) -> None:
    from ctrlhost.testing.real_server import Address

    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url, **more}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    assert Address(path).is_loopback() is loopback


def test_a_server_of_a_test_on_another_machine_is_refused_too(ctrlhost_host, away: Sandbox) -> None:
    with pytest.raises(ConfigError, match="is not on this machine"):
        ctrlhost_host(copier(), server=away.kubeconfig)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("cluster", "--ctrlhost-server=cluster: unknown server"),
        ("kubeconfig:", "--ctrlhost-server=kubeconfig:: unknown server"),
        ("kubeconfig:missing", "missing"),
    ],
)
def test_an_unusable_option_is_a_usage_error(tmp_path: Path, option: str, message: str) -> None:
    done = run_pytest(tmp_path, f"--ctrlhost-server={option}", PYTHONPATH=str(ROOT))
    assert done.returncode == 4
    assert message in done.stderr


OURS = [
    *("ctrlhost", "ctrlhost._core", "ctrlhost.testing", "ctrlhost.testing.pytest_plugin"),
    *("ctrlhost_sandbox", "ctrlhost_sandbox.pytest_plugin"),
]


@behaviour("authoring/AT17")
def test_a_project_without_the_kit_imports_neither_kubernetes_nor_starlette(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        dedent("""
            import sys

            def test_it():
                heavy = {"kubernetes", "starlette", "cryptography", "yaml", "msgspec", "prometheus_client"}
                assert "ctrlhost.testing.pytest_plugin" in sys.modules
                assert heavy & sys.modules.keys() == set()
                ours = sorted(name for name in sys.modules if name.startswith("ctrlhost"))
                assert ours == EXPECTED
        """).replace("EXPECTED", repr(OURS))
    )
    done = run_pytest(tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout


def test_the_hint_of_an_error_is_shown(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        dedent("""
            import ctrlhost

            def test_call(ctrlhost_host):
                raise ctrlhost.ConfigError("wrong", hint="the first")

            def test_cause():
                raise AssertionError from ctrlhost.ConfigError("wrong", hint="the second")

            def test_path(ctrlhost_host):
                ctrlhost_host("mistaken.py")

            def test_passes():
                pass
        """)
    )
    done = run_pytest(tmp_path, PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert "3 failed, 1 passed" in done.stdout
    lines = [line.removeprefix("E").strip() for line in done.stdout.splitlines()]
    hints = sorted({line for line in lines if line.startswith("hint: ")})
    assert hints[1:] == ["hint: the first", "hint: the second"]
    assert hints[0].startswith("hint: files are arguments of `run`, `dev`, `check`, `crds` and `manifests`")
