"""How an isolated plugin starts: mistakes of the operator, CRDs, and what it declares to the feed."""

from __future__ import annotations

import os
import signal
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost import Client, ConfigError
from ctrlhost.cli import execute
from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from ctrlhost.supervisor import run_directory
from ctrlhost.testing import Fault
from tests.host.conftest import Distributions, StartHost
from tests.support.isolated_plugins import BAD, child_of, running, short_directory
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.plugin_sources import WIDGETS
from tests.support.waiting import create_eventually

SETTINGS = """
    import ctrlhost, msgspec

    class Settings(msgspec.Struct, forbid_unknown_fields=True):
        number: int = 1

    @ctrlhost.hookimpl
    def ctrlhost_settings():
        return Settings

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", lambda ctx, request: None, ctrlhost.For("v1", "ConfigMap"))
"""


@pytest.fixture
def short() -> Iterator[Path]:
    with short_directory() as folder:
        yield folder


def error_of(output: str) -> list[str]:
    """Return the lines of the error, which is all that a command has written to its error output, but for its log."""
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("{")]
    assert lines[0].startswith("error: "), output
    assert not [line for line in lines[1:] if not line.startswith("hint: ")], output
    return lines


@pytest.mark.behaviour("supervision/PI13")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--isolate=none-such"],
            ["error: --isolate: the host runs no plugin `none-such`", "hint: known: bad"],
        ),
        (
            ["--set=supervision.bad.process=thread"],
            [
                "error: supervision.bad.process: invalid enum value 'thread' (in --set supervision.bad.process)",
                "hint: one of: shared, own",
            ],
        ),
    ],
    ids=["a plugin that does not run", "an unknown kind of process"],
)
def test_a_wrong_isolation_ends_the_start(
    ctrlhost: Any, distributions: Any, arguments: list[str], error: list[str]
) -> None:
    distributions.add("bad", BAD)
    done = ctrlhost("run", "--sandbox", "--listen=", "--plugins=bad", *arguments)
    assert done.returncode == 2
    assert error_of(done.stderr) == error


@pytest.mark.behaviour("supervision/PI13")
def test_the_path_of_a_socket_may_not_be_too_long(ctrlhost: Any, distributions: Any, short: Path) -> None:
    distributions.add("bad", BAD)
    deep = short / ("x" * (119 - len(f"{short}/ctrlhost/12345/bad/pages.sock")))
    deep.mkdir()
    done = ctrlhost("run", "--sandbox", "--listen=", "--plugins=bad", "--isolate=bad", XDG_RUNTIME_DIR=str(deep))
    assert done.returncode == 2
    message, hint = error_of(done.stderr)
    assert message.startswith(f"error: the path of the socket {deep}/ctrlhost/")
    assert message.endswith("/bad/pages.sock is longer than 100 bytes")
    assert hint == "hint: set XDG_RUNTIME_DIR to a directory with a shorter path"
    assert not list(deep.iterdir())


@pytest.mark.behaviour("supervision/PI13")
def test_a_host_without_a_private_directory_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], distributions: Any, short: Path, sandbox: Any
) -> None:
    distributions.add("bad", BAD)
    # Not even root can make a directory below a file.
    blocked = short / "file"
    blocked.touch()
    monkeypatch.setattr(run_directory, "SYSTEM_DIRECTORY", blocked / "system")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(blocked / "runtime"))
    monkeypatch.setenv("TMPDIR", str(blocked / "temporary"))
    arguments = ["run", f"--kubeconfig={sandbox.kubeconfig}", "--listen=", "--plugins=bad", "--isolate=bad"]
    assert execute(arguments) == 2
    message, hint = error_of(capsys.readouterr().err)
    assert message.startswith("error: no private directory can be made: ")
    for place in ("runtime/ctrlhost", "system", "temporary/ctrlhost-"):
        assert f"{blocked}/{place}" in message
    assert hint.startswith("hint: set XDG_RUNTIME_DIR to a directory that this user can write to")


@pytest.mark.behaviour("supervision/PI13")
def test_a_plugin_that_is_an_object_cannot_be_isolated(sandbox: Any) -> None:
    configuration = Configuration.gather(assignments=["supervision.bad.process=own"])
    settings = HostSettings(listen="", kubeconfig=str(sandbox.kubeconfig))
    host = Host(settings, [plugin_of(lambda _plugin: None, "bad")], configuration=configuration)
    with pytest.raises(ConfigError) as caught:
        host.start()
    host.stop(0)
    assert caught.value.message.startswith("supervision.bad.process: the plugin was passed to the host as an object")
    assert caught.value.hint == "install it with an entry point, and pass its name"


@pytest.mark.parametrize("isolated", [(), ("--isolate=bad",)], ids=["in the host", "isolated"])
@pytest.mark.parametrize(
    ("argument", "error"),
    [
        (
            "--set=bad.numbr=2",
            ["error: plugins.bad.numbr: unknown setting (in --set bad.numbr)", "hint: did you mean `number`?"],
        ),
        ("--set=bad.number=many", ["error: plugins.bad.number: expected `int`, got `str` (in --set bad.number)"]),
        (
            '--set=controllers."bad/d".workers=2',
            [
                "error: controllers.bad/d: plugin `bad` has no controller of this name",
                "hint: did you mean `bad/c`?",
            ],
        ),
    ],
    ids=["unknown setting", "wrong type", "unknown controller"],
)
def test_mistakes_in_the_settings_of_a_plugin_end_the_start(
    ctrlhost: Any, distributions: Any, sandbox: Any, isolated: tuple[str, ...], argument: str, error: list[str]
) -> None:
    distributions.add("bad", SETTINGS)
    kubeconfig = f"--kubeconfig={sandbox.kubeconfig}"
    done = ctrlhost("run", kubeconfig, "--listen=", "--plugins=bad", *isolated, argument)
    assert done.returncode == 2
    text = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("{"))
    assert error_of(text) == error


def test_the_host_installs_the_crds_of_its_plugins(distributions: Any, start_host: StartHost, sandbox: Any) -> None:
    for name in ("one", "two", "three"):
        distributions.add(name, WIDGETS.replace("host.test", f"{name}.test"))
    client = Client.load(sandbox.kubeconfig)
    host = start_host(
        f"--kubeconfig={sandbox.kubeconfig}", "--install-crds", "--isolate=one,two", plugins="one,two,three"
    )
    for name in ("one", "two", "three"):
        host.line(f"plugin {name} running")
        create_eventually(
            client,
            {"apiVersion": f"{name}.test/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"}},
        )
        seen = host.line(f"saw widget {name}")
        assert ("pid" in seen) == (name != "three")
        installed = client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"widgets.{name}.test")
        assert installed["metadata"]["annotations"]["ctrlhost.dev/plugin-version"] == "1.0"
        assert "pid" not in host.line(f"installed CRD widgets.{name}.test")
    created = [
        record for record in sandbox.audit if record.resource == "customresourcedefinitions" and record.verb == "create"
    ]
    assert sorted(record.name for record in created) == ["widgets.one.test", "widgets.three.test", "widgets.two.test"]
    client.close()
    assert host.stop() == 0


def test_a_kind_that_appears_later_reaches_the_process(distributions: Any, start_host: StartHost, sandbox: Any) -> None:
    distributions.add("bad", WIDGETS)
    (crd,) = _crds_of(WIDGETS)
    client = Client.load(sandbox.kubeconfig)
    options = ("--isolate=bad", "--set=host.start_timeout=0s")
    host = start_host(f"--kubeconfig={sandbox.kubeconfig}", *options, plugins="bad")
    waits = host.line("plugin bad waiting: ")
    assert "Widget (host.test/v1): the server does not serve it" in waits["msg"]
    assert host.get("/readyz")[0] == 200
    client.create(crd)
    host.line("plugin bad running")
    create_eventually(
        client, {"apiVersion": "host.test/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
    )
    host.line("saw widget w")
    client.close()
    assert host.stop() == 0


@pytest.mark.parametrize("isolated", [(), ("--isolate=bad",)], ids=["in the host", "isolated"])
def test_a_plugin_waits_for_a_permission(distributions: Any, start_host: StartHost, isolated: tuple[str, ...]) -> None:
    distributions.add("bad", BAD)
    distributions.add("good", "import ctrlhost\n@ctrlhost.hookimpl\ndef ctrlhost_setup(plugin): pass\n")
    with Sandbox(rbac=True) as sandbox:
        own = sandbox.kubeconfig_for(user="somebody")
        host = start_host(f"--kubeconfig={own}", "--set=host.start_timeout=0s", *isolated, plugins="bad,good")
        waits = host.line("plugin bad waiting: ")["msg"]
        # The command prints the Deployment, too: it must not leave out the other plugins.
        command = "`ctrlhost manifests --plugins=bad,good --image=IMAGE | kubectl apply --server-side -f -`"
        assert waits.endswith(f"; {command} grants its rights")
        host.line(f"2 rights missing for bad: run {command}, with the options of the installation")
        wanted = 'no permission to list ConfigMap (v1): configmaps is forbidden: User "somebody" cannot list resource'
        assert wanted in waits
        assert waits.count("no permission") == 1
        assert host.get("/readyz")[0] == 200
        client = Client.load(sandbox.kubeconfig)
        for obj in _rights("somebody"):
            client.create(obj)
        host.line("plugin bad running")
        client.create(config_map("slow", labels={"mine": "1"}))
        host.line("begun: slow")
        client.close()
        assert host.stop() == 0


def test_a_process_waits_for_crds_that_cannot_be_installed(
    distributions: Any, start_host: StartHost, faults: Any, sandbox: Any
) -> None:
    distributions.add("bad", WIDGETS)
    distributions.add("good", WIDGETS.replace("host.test", "good.test"))
    proxy = faults(sandbox)
    name = "widgets.host.test"
    proxy.next(Fault.answer(403), verb="create", resource="customresourcedefinitions", times=6)
    host = start_host(f"--kubeconfig={proxy.kubeconfig}", "--install-crds", "--isolate=bad", plugins="bad,good")
    waits = host.line(f"plugin bad waiting: installing CRDs: {name}: ")
    host.line("plugin bad running")
    host.line("plugin good running")
    states = [line["msg"] for line in host.lines if line["msg"].startswith("plugin bad ")]
    assert states.count("plugin bad syncing") <= 2, states
    assert "pid" not in waits
    assert host.stop() == 0


def test_a_stop_ends_the_wait_for_crds(distributions: Any, start_host: StartHost, faults: Any, sandbox: Any) -> None:
    distributions.add("bad", WIDGETS)
    proxy = faults(sandbox)
    proxy.next(Fault.answer(403), verb="create", resource="customresourcedefinitions", times=1000)
    host = start_host(f"--kubeconfig={proxy.kubeconfig}", "--install-crds", "--isolate=bad", plugins="bad")
    host.line("plugin bad waiting: installing CRDs: ")
    child = next(child_of(line) for line in host.lines if "pid" in line)
    assert host.stop() == 0
    assert not running(child)
    assert not [line for line in host.lines if line["level"] == "error"], host.text


def test_a_stop_while_the_plugin_is_imported_ends_the_process(
    distributions: Any, start_host: StartHost, sandbox: Any
) -> None:
    distributions.add("bad", "import os, time\nprint(f'importing in {os.getpid()}', flush=True)\ntime.sleep(600)\n")
    host = start_host(f"--kubeconfig={sandbox.kubeconfig}", "--isolate=bad", plugins="bad")
    line = host.wait_for(lambda: [text for text in host.output if text.startswith("importing in ")], "import")[0]
    child = int(line.rpartition(" ")[2])
    assert host.stop() == 0
    assert not running(child)
    assert not [line for line in host.lines if line["level"] == "error"], host.text


def test_a_stop_while_the_plugin_is_set_up_waits_for_it(
    distributions: Any, start_host: StartHost, sandbox: Any
) -> None:
    source = """
    import os, pathlib, time
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.log.info("set up begins")
        while not pathlib.Path("{go}").exists():
            time.sleep(0.01)
        plugin.log.info("set up ends")

    @ctrlhost.hookimpl
    def ctrlhost_synced(plugin):
        plugin.log.info("synced")
    """
    go = distributions.folder / "go"
    distributions.add("bad", source.format(go=go))
    host = start_host(f"--kubeconfig={sandbox.kubeconfig}", "--isolate=bad", plugins="bad")
    child = child_of(host.line("set up begins"))
    host.signal(signal.SIGTERM)
    host.line("SIGTERM: shutting down")
    go.touch()
    assert host.wait() == 0
    assert not running(child)
    assert "synced" not in host.text
    assert not [line for line in host.lines if line["level"] == "error"], host.text


def _rights(user: str) -> list[dict[str, Any]]:
    """Return the objects that allow a user everything."""
    version, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": group, "kind": "User", "name": user}
    binding = {"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": user}}
    return [{**binding, "roleRef": role, "subjects": [subject]}]


def _crds_of(source: str) -> list[dict[str, Any]]:
    namespace: dict[str, Any] = {}
    exec(textwrap.dedent(source), namespace)
    crds: list[dict[str, Any]] = namespace["ctrlhost_crds"]()
    return crds


#: Says at its first reconcile what it is made of.
FORKED = """
    import multiprocessing, os, random, sys
    import ctrlhost

    before = set(sys.modules)

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap"))

    def reconcile(ctx, request):
        later = sorted(name for name in set(sys.modules) - before if name.startswith("ctrlhost."))
        ctx.log.info("VERSION of NAME: number %s, parent %d, imported %s", random.random(), os.getppid(), later)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            ctx.log.info("pool: %s", pool.apply(os.path.basename, ["a/b"]))
"""


@pytest.mark.behaviour("faster/FA17")
def test_forked_plugins_start_with_the_code_of_now(
    start_host: StartHost, distributions: Distributions, sandbox: Sandbox, client: Client
) -> None:
    for plugin in ("bad", "worse"):
        distributions.add(plugin, FORKED.replace("NAME", plugin))
    delay = "--set=supervision.restart_delay=10ms"
    host = start_host(f"--kubeconfig={sandbox.kubeconfig}", "--isolate=all", delay, plugins="bad,worse")
    client.create(config_map("one"))
    lines = [host.line(f"VERSION of {plugin}: ") for plugin in ("bad", "worse")]
    host.line("pool: b")
    # Of another size, so that what was compiled of it is not used.
    (distributions.folder / "test_bad.py").write_text(textwrap.dedent(FORKED).replace("VERSION of NAME", "upgraded"))
    os.kill(child_of(lines[0]), signal.SIGKILL)
    lines.append(host.line("upgraded: "))
    numbers, parents, imported = zip(*(line["msg"].partition(": ")[2].split(", ", 2) for line in lines), strict=True)
    assert len(set(numbers)) == 3
    assert set(parents) == {f"parent {host.pid}"}
    assert set(imported) == {"imported []"}
    assert host.stop() == 0
