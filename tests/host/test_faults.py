"""Failures of a plugin or around the host: the message, the exit code, and the other plugins."""

from __future__ import annotations

import runpy
import socket

import pytest

import ctrlhost
from tests.support.manifests import SERVER
from tests.support.plugin_sources import ALWAYS_RAISES, BLOCKS, GREETER, WIDGETS, hook, to_greet


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nowhere_at_all", "could not be imported: No module named 'nowhere_at_all'"),
        ("1 / 0", "could not be imported: ZeroDivisionError: division by zero"),
        (hook("ctrlhost_setup", "1 / 0"), "ctrlhost_setup: ZeroDivisionError: division by zero (test_bad.py:6)"),
        (
            hook("ctrlhost_settings", "1 / 0", ""),
            "ctrlhost_settings: ZeroDivisionError: division by zero (test_bad.py:6)",
        ),
        (hook("ctrlhost_sett_up", "pass"), "there is no hook `ctrlhost_sett_up`; did you mean `ctrlhost_setup`?"),
        (hook("ctrlhost_synced", "1 / 0"), "ctrlhost_synced: ZeroDivisionError: division by zero (test_bad.py:6)"),
        (
            hook("ctrlhost_synced", "raise __import__('ctrlhost').ConfigError('mode: not this')"),
            "failed: mode: not this",
        ),
        (hook("ctrlhost_elected", "1 / 0"), "ctrlhost_elected: ZeroDivisionError: division by zero (test_bad.py:6)"),
        (hook("ctrlhost_crds", "raise OSError('no file')", ""), "ctrlhost_crds: OSError: no file (test_bad.py:6)"),
        (hook("ctrlhost_setup", "plugin.add_controller('a/b', print)"), "'a/b' cannot be the name of a controller"),
        (hook("ctrlhost_setup", "raise SystemExit(9)"), "ctrlhost_setup: SystemExit: 9 (test_bad.py:6)"),
        (
            hook("ctrlhost_setup", "plugin.add_controller('a', print, rate_limiter=5)"),
            "ctrlhost_setup: TypeError: int is not a rate limiter: missing method when() (test_bad.py:6)",
        ),
        (hook("ctrlhost_setup", "plugin.add_listener('127.0.0.1:70000', None)"), "invalid address"),
    ],
)
def test_a_failing_plugin_is_named_and_the_others_continue(distributions, start_host, source, reason):
    distributions.add("bad", source)
    distributions.add("greeter", GREETER)
    host = start_host("--sandbox", "--set=supervision.restart_limit=0", plugins="bad,greeter")
    line = host.line("plugin bad failed")
    assert reason in line["msg"]
    assert line["level"] == "error"
    assert line["plugin"] == "bad"
    host.line("plugin greeter running")
    ctrlhost.Client.load(host.kubeconfig).create(to_greet("ann"))
    host.line("greeting ann")
    assert host.metric("ctrlhost_plugin_state", plugin="bad", state="failed") == 1
    for endpoint in ("/healthz", "/readyz"):
        status, body = host.get(endpoint)
        assert status == 503
        (failed,) = [line for line in body.splitlines() if line.startswith("[-]")]
        assert failed.startswith("[-]plugin/bad failed: failed: ")
        assert reason in failed
        assert "[+]plugin/greeter ok" in body
    assert host.get("/livez")[0] == 200
    assert host.stop() == 0


@pytest.mark.parametrize(
    "source", ["import nowhere_at_all", hook("ctrlhost_setup", "1 / 0"), hook("ctrlhost_synced", "1 / 0")]
)
def test_the_host_exits_with_code_1_when_its_only_plugin_fails(distributions, start_host, source):
    distributions.add("bad", source)
    host = start_host("--sandbox", "--set=supervision.restart_limit=0", plugins="bad")
    assert host.wait() == 1
    assert "plugin bad failed" in host.text
    assert "every plugin has failed" in host.text


def test_two_distributions_with_one_plugin_name_fail_that_plugin(distributions, start_host):
    distributions.add("twin", GREETER, distribution="twin-one")
    distributions.add("twin", GREETER, distribution="twin-two")
    distributions.add("greeter", GREETER)
    host = start_host("--sandbox", plugins="twin,greeter")
    assert "twin-one 1.0, twin-two 1.0" in host.line("plugin twin failed")["msg"]
    host.line("plugin greeter running")
    assert host.stop() == 0


def test_a_reconciler_that_always_raises_is_retried_counted_and_isolated(distributions, start_host):
    distributions.add("bad", ALWAYS_RAISES)
    distributions.add("greeter", GREETER)
    host = start_host("--sandbox", plugins="bad,greeter")
    ctrlhost.Client.load(host.kubeconfig).create(to_greet("ann"))
    host.line("greeting ann")
    host.wait_for(lambda: sum("a bug in the reconciler" in str(line) for line in host.lines) >= 2, "two reports")
    host.wait_for_metric(2, "controller_runtime_reconcile_errors_total", controller="bad/bad")
    error = "last error: RuntimeError: a bug in the reconciler"
    host.wait_for(lambda: error in host.get("/readyz?verbose")[1], "the error in the health report")
    assert host.stop() == 0


def test_a_reconciler_that_blocks_forever_delays_no_other(distributions, start_host):
    distributions.add("stuck", BLOCKS)
    distributions.add("greeter", GREETER)
    host = start_host("--sandbox", "--set=host.drain_timeout=200ms", plugins="stuck,greeter")
    client = ctrlhost.Client.load(host.kubeconfig)
    client.create(to_greet("ann"))
    host.line("blocking")
    client.create(to_greet("bob"))
    host.line("greeting bob")
    assert host.get("/livez")[0] == 200
    assert host.stop() == 0


def test_a_hook_that_blocks_forever_delays_no_other(distributions, start_host):
    distributions.add("stuck", hook("ctrlhost_synced", "__import__('threading').Event().wait()"))
    distributions.add("greeter", GREETER)
    host = start_host("--sandbox", "--set=host.drain_timeout=200ms", plugins="stuck,greeter")
    host.line("plugin greeter running")
    status, body = host.get("/readyz")
    assert status == 503
    assert "[-]plugin/stuck failed: syncing" in body
    assert host.stop() == 0


def test_a_plugin_waits_for_a_missing_crd_and_starts_when_it_is_installed(distributions, start_host, tmp_path):
    distributions.add("widgets", WIDGETS)
    distributions.add("greeter", GREETER)
    from ctrlhost_sandbox import Sandbox

    with Sandbox() as sandbox:
        at_once = "--set=host.start_timeout=0s"
        host = start_host(f"--kubeconfig={sandbox.kubeconfig}", at_once, plugins="widgets,greeter")
        host.line("plugin greeter running")
        assert "Widget (host.test/v1)" in host.line("plugin widgets waiting")["msg"]
        assert host.get("/readyz") == (200, "ok")
        assert "[+]plugin/widgets ok: waiting" in host.get("/readyz?verbose")[1]
        assert host.metric("ctrlhost_plugin_state", plugin="widgets", state="waiting") == 1
        client = ctrlhost.Client.load(sandbox.kubeconfig)
        namespace = runpy.run_path(str(distributions.folder / "test_widgets.py"))
        for crd in namespace["ctrlhost_crds"]():
            client.create(crd)
        host.line("plugin widgets running")
        client.create(
            {"apiVersion": "host.test/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
        )
        host.line("saw widget w")
        assert host.stop() == 0


def test_crds_are_installed_on_any_server_if_requested(distributions, start_host):
    distributions.add("widgets", WIDGETS)
    from ctrlhost_sandbox import Sandbox

    with Sandbox() as sandbox:
        for _ in range(2):
            host = start_host(f"--kubeconfig={sandbox.kubeconfig}", "--install-crds", plugins="widgets")
            host.line("plugin widgets running")
            assert host.stop() == 0


def test_the_host_waits_for_an_api_server_that_is_down_at_startup(distributions, start_host):
    distributions.add("greeter", GREETER)
    from ctrlhost_sandbox import Sandbox

    with Sandbox(insecure_http=True) as sandbox:
        port = int(sandbox.url.rpartition(":")[2])
        kubeconfig = distributions.folder / "kubeconfig"
        kubeconfig.write_text(sandbox.kubeconfig.read_text())
    host = start_host(f"--kubeconfig={kubeconfig}", plugins="greeter")
    assert host.get("/livez")[0] == 200
    host.eventually(lambda: "[-]plugin/greeter failed: syncing" in host.get("/readyz")[1], "the state")
    assert host.get("/readyz")[0] == 503
    with Sandbox(insecure_http=True, port=port) as sandbox:
        host.line("plugin greeter running")
        assert host.get("/readyz")[0] == 200
        ctrlhost.Client(sandbox.url).create(to_greet("ann"))
        host.line("greeting ann")
        assert host.stop() == 0


def test_a_port_in_use_fails_only_its_plugin(distributions, start_host):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        distributions.add("bad", hook("ctrlhost_setup", f"plugin.add_listener('127.0.0.1:{port}', None)"))
        distributions.add("greeter", GREETER)
        host = start_host("--sandbox", plugins="bad,greeter")
        assert f"port {port} is in use" in host.line("plugin bad failed")["msg"]
        host.line("plugin greeter running")
        assert host.stop() == 0


# Invalid options: one line, a hint, exit code 2, and nothing starts.


def refused(run, *messages: str, hint: str | None = None) -> None:
    assert run.returncode == 2, run.stderr
    first, *rest = run.stderr.splitlines()
    assert first.startswith("error: ")
    for message in messages:
        assert message in first
    assert "Traceback" not in run.stderr
    if hint is None:
        assert rest == []
    else:
        assert rest[0] == ""
        assert rest[1].startswith("hint: ")
        assert hint in rest[1]
    assert run.stdout == ""


def test_a_run_without_plugins_is_refused(ctrlhost):
    refused(ctrlhost("run"), "no plugins selected", hint="--help")


def test_an_unknown_plugin_is_refused(ctrlhost, distributions):
    distributions.add("greeter", GREETER)
    refused(
        ctrlhost("run", "--plugins=greeter,greter", "--sandbox"),
        "plugin `greter` is not installed",
        hint="did you mean `greeter`?",
    )


def test_an_unknown_option_is_refused(ctrlhost):
    refused(ctrlhost("run", "--leader-elects"), "No such option", hint="ctrlhost run --help")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--set=greeter.size=3"], "plugins.greeter.size: the plugin `greeter` has no settings", None),
        (["--set=greter.size=3"], "plugins.greter: no plugin `greter` is installed", "did you mean `greeter`?"),
        (["--set=host.drain_timeout=soon"], "host.drain_timeout: invalid duration `soon`", None),
        (["--set=host.log_level=loud"], "host.log_level: invalid enum value 'loud'", "one of: debug"),
        (["--config=/nowhere/at/all.toml"], "/nowhere/at/all.toml: No such file or directory", "--config"),
        (["--listen=here"], "host.listen: invalid address `here`", "HOST:PORT"),
        (["--kubeconfig=/nowhere/at/all"], "/nowhere/at/all", ""),
    ],
)
def test_bad_settings_are_refused_with_their_path(ctrlhost, distributions, arguments, message, hint):
    distributions.add("greeter", GREETER)
    result = ctrlhost("run", "--plugins=greeter", "--listen=127.0.0.1:0", *arguments)
    if hint == "":
        hint = None if len(result.stderr.splitlines()) == 1 else ""
    refused(result, message, hint=hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[host", "invalid TOML"), ("[host]\nlisen = 3", "host.lisen: unknown setting"), ("x = 1", "x: unknown")],
)
def test_a_bad_settings_file_is_refused(ctrlhost, distributions, tmp_path, text, message):
    distributions.add("greeter", GREETER)
    file = tmp_path / "settings.toml"
    file.write_text(text)
    result = ctrlhost("run", "--plugins=greeter", f"--config={file}")
    assert result.returncode == 2
    assert message in result.stderr
    assert str(file) in result.stderr


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "clusters: 3", "apiVersion: v1\nkind: Config\ncurrent-context: gone\n"]
)
def test_a_malformed_kubeconfig_is_refused(ctrlhost, distributions, tmp_path, text):
    distributions.add("greeter", GREETER)
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    result = ctrlhost("run", "--plugins=greeter", "--listen=127.0.0.1:0", f"--kubeconfig={file}")
    assert result.returncode == 2, result.stderr
    assert str(file) in result.stderr
    assert "Traceback" not in result.stderr


def test_a_port_in_use_is_refused(ctrlhost, distributions):
    distributions.add("greeter", GREETER)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = ctrlhost("run", "--plugins=greeter", "--kubeconfig=/dev/null", f"--listen=127.0.0.1:{port}")
    refused(result, f"host.listen: port {port} is in use", hint="port 0")


MODES = """
    from enum import Enum

    import msgspec

    import ctrlhost

    class Mode(Enum):
        OBSERVE = "observe"
        ENFORCE = "enforce"

    class Settings(msgspec.Struct, frozen=True):
        mode: Mode = Mode.OBSERVE

    @ctrlhost.hookimpl
    def ctrlhost_settings():
        return Settings

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        pass
"""


@pytest.mark.behaviour("findings3/NO5")
@pytest.mark.parametrize("isolated", [(), ("--isolate=all",)], ids=["in the host", "isolated"])
@pytest.mark.parametrize("mistake", ["port in use", "host with a port", "invalid choice"])
def test_a_mistake_in_the_settings_of_a_plugin_is_refused(ctrlhost, distributions, sandbox, mistake, isolated):
    distributions.add("server", SERVER)
    distributions.add("modes", MODES)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        setting, message, hint = {
            "port in use": (
                f"server.port={port}",
                f"plugins.server.address and its port: port {port} is in use",
                "port",
            ),
            "host with a port": (
                "server.address=127.0.0.1:80",
                "plugins.server.address: invalid host `127.0.0.1:80`",
                "write the host alone",
            ),
            "invalid choice": (
                "modes.mode=loud",
                "plugins.modes.mode: invalid enum value 'loud'",
                "one of: observe, enforce",
            ),
        }[mistake]
        options = (f"--kubeconfig={sandbox.kubeconfig}", "--listen=", f"--set={setting}", *isolated)
        run = ctrlhost("run", "--plugins=server,modes", *options)
        checked = ctrlhost("check", "--offline", "--plugins=server,modes", f"--set={setting}")
    assert run.returncode == 2, run.stderr
    lines = [line for line in run.stderr.splitlines() if line.startswith(("error: ", "hint: "))]
    assert lines[0].startswith(f"error: {message}")
    assert lines[1].startswith("hint: ")
    assert hint in lines[1]
    # Whether a port is free is not checked without running.
    if mistake != "port in use":
        assert checked.returncode == 1
        assert message in checked.stdout + checked.stderr
        assert hint in checked.stdout + checked.stderr


def test_the_debug_setting_prints_the_traceback(ctrlhost, distributions):
    distributions.add("greeter", GREETER)
    result = ctrlhost("run", "--plugins=greeter", "--listen=here", CTRLHOST_DEBUG="1")
    assert result.returncode == 2
    assert "Traceback" in result.stderr
