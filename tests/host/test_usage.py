"""Invalid options of `ctrlhost run`: one clear line, exit code 2, and nothing starts."""

from __future__ import annotations

import textwrap

import pytest

from tests.support.plugin_sources import GREETER

SETTINGS = (
    textwrap.dedent(GREETER)
    + """
import msgspec

class Settings(msgspec.Struct, forbid_unknown_fields=True):
    greeting: str = "hello"
    size: int = 1

@ctrlhost.hookimpl
def ctrlhost_settings():
    return Settings
"""
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--sandbox", "--set=greeter.greting=hi"],
            "plugins.greeter.greting: unknown setting (in --set greeter.greting)",
        ),
        (["--sandbox", "--set=greeter.size=big"], "plugins.greeter.size: "),
        (["--sandbox", "--listen=nowhere"], "invalid address `nowhere`"),
        (["--sandbox", "--manifest=f.yaml"], "`ctrlhost run` applies no files; `ctrlhost dev` has --manifest"),
        (["--sandbox", "--kubeconfig=here"], "--kubeconfig and --sandbox are mutually exclusive"),
        (["--set=host.sandbox=true", "--context=here"], "--context and --sandbox are mutually exclusive"),
        (["--sandbox-data=here"], "--sandbox-data has no effect without --sandbox"),
        (["--sandbox", "-n", "BAD NS"], "invalid namespace `BAD NS`"),
        (["-n", "good,-bad"], "invalid namespace `-bad`"),
        (["--set=controllers.greeter/greeter.namespaces=a.b"], "invalid namespace `a.b`"),
        (["--leader-elect", "--set=host.leader_elect_resource_namespace=A"], "invalid namespace `A`"),
        *(
            pytest.param(
                ["--sandbox", f"--set=supervision.{name}={value}"],
                "supervision.greeter.retry_qps: " if value == "often" else "supervision.greeter: ",
                marks=pytest.mark.behaviour("supervision/BU19"),
            )
            for name in ("greeter.retry_qps", "greeter.retry-qps")
            for value in ("-1", "nan", "often")
        ),
        *(
            pytest.param(
                ["--sandbox", f"--set=supervision.greeter.deadlines.{setting}"],
                f"supervision.greeter.deadlines.{setting.partition('=')[0]}: ",
                marks=pytest.mark.behaviour("supervision/EN29"),
            )
            for setting in ("hoook=1", "hook=-1", "hook=soon", "page=nan")
        ),
        (["--sandbox", "--set=supervision.greeter.stuck_limit=0"], "`stuck_limit` must be at least 1"),
        (["--sandbox", "--set=supervision.greeter.restart_delay=0"], "`restart_delay` must be positive"),
        (["--sandbox", "--set=supervision.greeter.heartbeat_timeout=0"], "`heartbeat_timeout` must be positive"),
        (["--sandbox", "--set=supervision.memory_limit=100"], "supervision: `memory_limit` must be at least 16Mi"),
        pytest.param(
            ["--sandbox", "--set=supervision.enabled=false"],
            "every plugin is disabled",
            marks=pytest.mark.behaviour("supervision/LC11"),
        ),
        (
            ["--sandbox", "--leader-elect", "--set=host.leader_elect_plugins=greater"],
            "host.leader_elect_plugins: the host runs no plugin `greater`",
        ),
    ],
)
def test_invalid_options_are_refused_before_anything_is_logged(ctrlhost, distributions, arguments, message):
    distributions.add("greeter", SETTINGS)
    result = ctrlhost("run", "--plugins=greeter", *arguments)
    assert result.returncode == 2, result.stderr
    line = result.stderr.splitlines()[0]
    assert line.startswith("error: ")
    assert message in line
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("name", ["A_B", "a.b", "../a", "-a", "1", ""])
def test_a_name_that_no_object_can_have_is_refused(ctrlhost, distributions, name):
    distributions.add("greeter", SETTINGS)
    result = ctrlhost("manifests", "--plugins=greeter", "--image=host:1", f"--name={name}")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[0] == f"error: --name {name}: not a name of Kubernetes objects"


def test_a_lease_of_a_misspelt_plugin_is_refused_with_a_hint(ctrlhost, distributions):
    distributions.add("greeter", SETTINGS)
    result = ctrlhost("manifests", "--plugins=greeter", "--leader-elect", "--set=host.leader_elect_plugins=greter")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "error: host.leader_elect_plugins: the host runs no plugin `greter`",
        "",
        "hint: did you mean `greeter`?",
    ]


@pytest.mark.behaviour("supervision/PI13")
@pytest.mark.parametrize("command", ["run", "manifests"])
@pytest.mark.parametrize(
    ("argument", "message", "hint"),
    [
        ("--isolate=none-such", "--isolate: the host runs no plugin `none-such`", "known: greeter"),
        ("--isolate=greeter,greter", "--isolate: the host runs no plugin `greter`", "did you mean `greeter`?"),
        (
            "--set=supervision.greeter.process=thread",
            "supervision.greeter.process: invalid enum value 'thread' (in --set supervision.greeter.process)",
            "one of: shared, own",
        ),
        (
            "--set=supervision.process=thread",
            "supervision.process: invalid enum value 'thread' (in --set supervision.process)",
            "one of: shared, own",
        ),
    ],
)
def test_an_invalid_isolation_is_refused_with_a_hint(ctrlhost, distributions, command, argument, message, hint):
    distributions.add("greeter", SETTINGS)
    result = ctrlhost(command, "--plugins=greeter", argument)
    assert result.returncode == 2, result.stderr
    assert result.stderr.splitlines() == [f"error: {message}", "", f"hint: {hint}"]
    assert result.stdout == ""
