"""Commands that read from a running host: what they print, and which host they ask."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ctrlhost import Client
from ctrlhost.cli.group import COMMANDS
from ctrlhost.cli.table import visible
from tests.host.conftest import Distributions
from tests.support import fork_server
from tests.support.host_process import HostProcess
from tests.support.json_schema import problems
from tests.support.plugin_modules import config_map
from tests.support.status import SCHEMA
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

#: A controller with each kind of key, one that does nothing, and a plugin that waits.
BUSY = """
import threading
import ctrlhost
from ctrlhost import For, Result, TerminalError

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    def names(ctx, request):
        if request.name == "kube-root-ca.crt":
            raise ValueError("<script> \\x1b[31m{{\\nsecond line")
        if request.name == "go":
            handle.enqueue("long")

    def keys(ctx, key):
        if key == "long":
            for number in range(5):
                handle.enqueue(f"waits-{number}", priority=-number)
            threading.Event().wait()
        if key == "later":
            return Result(requeue_after=3600)
        if key == "wrong":
            raise TerminalError("the name is taken")

    plugin.add_controller("names", names, For("v1", "ConfigMap"))
    handle = plugin.add_controller("keys", keys)
    handle.enqueue("later")
    handle.enqueue("wrong")
    plugin.add_controller("calm", lambda ctx, request: None, For("v1", "Namespace"))
    secrets = For("v1", "Secret", namespaces=["a"])
    plugin.add_controller("picky", lambda ctx, request: None, secrets)
"""
#: Failing keys stay in back-off.
SETTINGS = """
[controllers."busy/names"]
base_delay = "1h"
max_delay = "1h"
"""
#: What is left of it with jitter, as commands show it.
_NEARLY_AN_HOUR = r"1\.\dh|(60|5\d)min"
WAITING = """
import ctrlhost
from ctrlhost import For

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("things", lambda ctx, request: None, For("example.com/v1", "Thing"))
"""
#: Arguments of each command that attaches; those that read may also have `--url`.
READING = {
    "top": ("top", "--once"),
    "plugins": ("plugins",),
    "informers": ("informers",),
    "queue": ("queue",),
    "explain-key": ("explain-key", "busy/names", "default/a"),
}
ACTING = {
    "pause": ("pause", "busy"),
    "resume": ("resume", "busy/names"),
    "enqueue": ("enqueue", "busy/names", "default/a"),
    "log-level": ("log-level", "busy", "debug"),
    "resign": ("resign",),
    "profile": ("profile",),
}


class Attached:
    """A running host in a private directory of its own, and the command line beside it."""

    def __init__(self, host: HostProcess, environment: dict[str, str]) -> None:
        self.host = host
        self.environment = environment

    @property
    def socket(self) -> Path:
        message: str = self.host.line("local socket at ")["msg"]
        return Path(message.removeprefix("local socket at "))

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return fork_server.run(*arguments, env=self.environment | environment)

    def rows(self, *arguments: str) -> list[list[str]]:
        """Return the fields of the printed lines, which are without colours and control characters."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        assert all(line.isprintable() for line in done.stdout.splitlines())
        assert "\x1b" not in done.stdout
        return [line.split() for line in done.stdout.splitlines()]

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self.host.address}/api/v1{path}", timeout=60) as answer:
            return json.load(answer)


def go(host: HostProcess) -> None:
    """Start a reconcile of the controller `busy/keys` that does not end."""
    client = Client.load(host.kubeconfig)
    client.create(config_map("go"))
    client.close()


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attached]:
    folder = tmp_path_factory.mktemp("site")
    distributions = Distributions(folder)
    distributions.add("busy", BUSY)
    distributions.add("waits", WAITING)
    with ExitStack() as stack:
        runtime = stack.enter_context(TemporaryDirectory(prefix="run-"))
        environment = distributions.environment(XDG_RUNTIME_DIR=runtime)
        settings = folder / "ctrlhost.toml"
        settings.write_text(SETTINGS)
        arguments = ("--sandbox", "--plugins=busy,waits", f"--config={settings}")
        host = stack.enter_context(HostProcess(*arguments, environment=environment))
        operator = Attached(host, environment)
        host.line("plugin busy running")
        eventually(lambda: len(operator.get("/queues/busy/names?part=failing")["items"]) == 4)
        # A worker may take several keys at once, which are then all in work.
        eventually(lambda: operator.get("/queues/busy/keys?part=delayed")["total"] == 1)
        eventually(lambda: operator.get("/queues/busy/keys?part=processing")["total"] == 0)
        go(host)
        eventually(lambda: operator.get("/queues/busy/keys?part=queued")["total"] == 5)
        yield operator


@behaviour("operations/OP83")
def test_the_queues_and_the_keys_of_one(attached: Attached) -> None:
    queues = attached.rows("queue")
    assert queues[0] == ["CONTROLLER", "PENDING", "OLDEST", "PROCESSING", "DELAYED", "RETRYING", "STATE"]
    by_name = {row[0]: row[1:] for row in queues[1:]}
    assert by_name["busy/names"][:5] == ["0", "-", "0", "4", "4"]
    assert by_name["busy/keys"][0] == "5"
    assert by_name["busy/keys"][2:5] == ["1", "1", "0"]
    keys = attached.rows("queue", "busy/keys")
    assert keys[0] == ["KEY", "PART", "PRIORITY", "AGE", "DUE", "FAILURES"]
    assert [row[:2] for row in keys[1:]] == [
        ["long", "processing"],
        *([f"waits-{number}", "queued"] for number in range(5)),
        ["later", "delayed"],
    ]
    assert [row[2] for row in keys[2:7]] == ["0", "-1", "-2", "-3", "-4"]
    assert re.fullmatch(_NEARLY_AN_HOUR, keys[7][4])
    paged = attached.run("queue", "busy/keys", "--part=queued", "--limit=2")
    assert [line.split()[0] for line in paged.stdout.splitlines()[1:]] == ["waits-0", "waits-1"]
    assert paged.stderr.startswith("5 queued in all; the next: --part queued --after ")
    after = paged.stderr.split()[-1]
    rest = attached.rows("queue", "busy/keys", "--part=queued", f"--after={after}")
    assert [row[0] for row in rest[1:]] == ["waits-2", "waits-3", "waits-4"]


@behaviour("operations/OP83")
@behaviour("operations/OP49")
@behaviour("oncall/OC14")
def test_failing_keys_have_the_last_error(attached: Attached) -> None:
    done = attached.run("queue", "busy/names", "--failing")
    assert done.returncode == 0
    sentence, _, causes, cause, _, heading, *lines = done.stdout.splitlines()
    # The cause is first, then its keys.
    assert re.fullmatch(r"4 of \d+ keys fail, 1 cause", sentence)
    assert causes.split() == ["KEYS", "CONTROLLER", "SINCE", "LAST", "FAILURES/s", "CAUSE"]
    assert cause.split()[:2] == ["4", "busy/names"]
    failing = {entry["key"]: entry for entry in attached.get("/status")["failing"]}
    place = next(iter(failing.values()))["place"]
    assert cause.endswith(rf"  ValueError at {place}: <script> \x1b[#{{{{ second line")
    assert heading.split() == ["KEY", "FAILURES", "NEXT", "RETRY", "RECONCILE", "LAST", "ERROR"]
    assert len(lines) == 4
    for line in lines:
        key, failures, retry, run, error = line.split(None, 4)
        assert failures == "1"
        assert re.fullmatch(_NEARLY_AN_HOUR, retry)
        assert run == failing[key]["reconcile_id"]
        assert error == rf"ValueError: <script> \x1b[31m{{{{ second line ({place})"
    assert done.stderr == "hint: `ctrlhost explain-key PLUGIN/CONTROLLER KEY` prints the traceback\n"
    assert attached.run("queue", "busy/calm", "--failing").stdout == "no key fails\n"


@behaviour("operations/OP83")
def test_the_informers_and_one_of_them(attached: Attached) -> None:
    rows = attached.rows("informers")
    assert rows[0] == ["ID", "OBJECTS", "BYTES", "LAST", "EVENT", "USERS", "PENDING", "STATE"]
    config_maps = next(row for row in rows if row[0] == "ConfigMap.v1")
    assert (config_maps[1], config_maps[4:]) == ("5", ["1", "0", "watching"])
    lines = attached.run("informers", "ConfigMap.v1").stdout.splitlines()
    assert lines[0] == "ConfigMap.v1"
    facts = {line[:12].strip(): line[14:] for line in lines[1:8]}
    assert list(facts) == ["resource", "selection", "state", "objects", "last event", "last byte", "watches"]
    assert facts["resource"] == "configmaps (v1)"
    assert facts["selection"] == "all objects"
    assert lines[-2].split() == ["USER", "CPU", "HANDLERS", "PENDING", "READS"]
    assert lines[-1].split()[0] == "busy/names"
    assert lines[-1].endswith("whole objects")


@behaviour("operations/OP63")
@behaviour("operations/OP83")
@behaviour("operations/OP49")
@behaviour("oncall/OC14")
def test_a_key_is_explained(attached: Attached) -> None:
    key = "default/kube-root-ca.crt"
    done = attached.run("explain-key", "busy/names", key)
    assert done.returncode == 0
    answer = attached.get(f"/keys/busy/names?key={key}")
    lines = done.stdout.splitlines()
    assert lines[0] == f"busy/names {key}"
    assert lines[1].startswith("  verdict    backing off: 1 failure, next run in ")
    assert lines[2].strip().startswith(r"last error: ValueError: <script> \x1b[31m{{ second line (test_busy.py:")
    assert lines[3].startswith("  since      ")
    # The host computes it anew from an age.
    printed, since = (datetime.fromisoformat(moment) for moment in (lines[3].split()[1], answer["since"]))
    assert abs(printed - since) < timedelta(seconds=1)
    assert re.search(r" \(\S+ ago\)$", lines[3])
    assert lines[4].startswith("  fails      since 20")
    run = answer["reconciles"][0]
    assert lines[5].startswith(f"  last runs  {run['time'][11:19]}, ")
    assert lines[5].endswith(f"({run['reconcile_id']})")
    version, generation = answer["object"]["cached_version"], answer["object"]["generation"]
    assert (version, generation) == (answer["object"]["server_version"], None)
    assert lines[6] == f"  object     cached rv={version}; server rv={version}"
    again = f"`ctrlhost enqueue busy/names {key}`, once the cause is mended"
    assert lines[7:9] == [f"  try again  {again}", ""]
    traceback = answer["failing"]["traceback"].splitlines()
    assert lines[9:] == [visible(line) for line in traceback]
    assert any("in names" in line for line in traceback)
    plain = attached.run("explain-key", "busy/names", "default/none").stdout
    assert "  verdict    not in the cache: informer ConfigMap.v1: watching\n" in plain
    waits = attached.run("explain-key", "waits/things", "a").stdout
    assert "  verdict    plugin not running: plugin waits is waiting: " in waits


@behaviour("operations/OP63")
@behaviour("authoring/AK6")
@pytest.mark.parametrize(
    ("controller", "key", "verdict"),
    [
        ("waits/things", "a", "plugin not running"),
        ("busy/keys", "long", "processing"),
        ("busy/keys", "waits-4", "queued"),
        ("busy/names", "default/kube-root-ca.crt", "backing off"),
        ("busy/keys", "later", "delayed"),
        ("busy/keys", "wrong", "gave up"),
        ("busy/picky", "b/any", "filtered"),
        ("busy/names", "default/none", "not in the cache"),
        ("busy/calm", "default", "done"),
        ("busy/keys", "none", "unknown key"),
    ],
)
def test_each_verdict_is_printed_with_its_facts(attached: Attached, controller: str, key: str, verdict: str) -> None:
    """The host that stops is below; the tests of commands that act have `paused` and `standby`."""
    answer = attached.get(f"/keys/{controller}?key={key}")
    assert answer["verdict"] == verdict
    heading, first, *rest = attached.run("explain-key", controller, key).stdout.splitlines()
    assert heading == f"{controller} {key}"
    facts = [
        first.removeprefix(f"  verdict    {verdict}: "),
        *(line.strip() for line in rest[: len(answer["facts"]) - 1]),
    ]
    # Durations go on between the two looks.
    assert [still(fact) for fact in facts] == [still(visible(fact)) for fact in answer["facts"]]
    document = json.loads(attached.run("explain-key", controller, key, "--output=json").stdout)
    assert (document["verdict"], document.keys()) == (verdict, answer.keys())
    assert [still(fact) for fact in document["facts"]] == [still(fact) for fact in answer["facts"]]


def still(fact: str) -> str:
    """Return a fact without its numbers."""
    return re.sub(r"[0-9.]+", "", fact)


@behaviour("operations/OP63")
@behaviour("authoring/AK6")
def test_a_host_that_stops_is_the_first_reason(attached: Attached) -> None:
    with HostProcess("--sandbox", "--plugins=busy", environment=attached.environment) as other:
        socket = other.line("local socket at ")["msg"].removeprefix("local socket at ")
        command = ("explain-key", f"--socket={socket}", "busy/keys", "long")
        other.line("plugin busy running")
        go(other)
        eventually(lambda: "  verdict    processing: " in attached.run(*command).stdout)
        other.signal(signal.SIGTERM)
        eventually(lambda: "  verdict    host stopping: the host drains: " in attached.run(*command).stdout)


@behaviour("oncall/OC14")
def test_the_plugins_of_the_host_have_their_state(attached: Attached) -> None:
    done = attached.run("plugins", f"--socket={attached.socket}")
    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["NAME", "VERSION", "STATE", "FOR", "CPU", "RESTARTS"]
    named = [line.split()[:2] for line in lines if not line.startswith(" ")]
    assert sorted(named) == [["busy", "1.0"], ["waits", "1.0"]]
    waits = next(at for at, line in enumerate(lines) if line.startswith("waits "))
    assert lines[waits].split()[2] == "waiting"
    # Why is below, and what shows more.
    assert "Thing (example.com/v1): the server does not serve it" in lines[waits + 1]
    busy = next(at for at, line in enumerate(lines) if line.startswith("busy "))
    assert "    see `ctrlhost queue --failing`" in lines[busy + 1 :]
    by_url = attached.run("plugins", f"--url=http://{attached.host.address}")
    assert [line.split()[:2] for line in by_url.stdout.splitlines()[1:] if not line.startswith(" ")] == named
    assert attached.run("plugins").stdout.splitlines()[0].split() == ["NAME", "VERSION", "DISTRIBUTION", "STATUS"]
    assert attached.run("plugins", "--output=json").returncode == 2
    assert attached.run("plugins", "--check", f"--socket={attached.socket}").returncode == 2


@behaviour("operations/OP82")
@pytest.mark.parametrize(
    ("arguments", "path", "schema"),
    [
        (("top",), "/status", "Status"),
        (("top", "--once"), "/status", "Status"),
        (("plugins",), "/status", "Status"),
        (("informers",), "/status", "Status"),
        (("informers", "ConfigMap.v1"), "/status", "InformerRow"),
        (("queue",), "/status", "Status"),
        (("queue", "busy/keys"), "/queues/busy/keys?part=queued", "QueuePage"),
        (("queue", "busy/keys", "--part=delayed"), "/queues/busy/keys?part=delayed", "QueuePage"),
        (("queue", "busy/names", "--failing", "--limit=1"), "/queues/busy/names?part=failing&limit=1", "QueuePage"),
        (("explain-key", "busy/keys", "long"), "/keys/busy/keys?key=long", "KeyStatus"),
    ],
)
@pytest.mark.parametrize("at", ["socket", "url"])
def test_json_is_the_answer_of_the_api(
    attached: Attached, arguments: tuple[str, ...], path: str, schema: str, at: str
) -> None:
    target = f"--socket={attached.socket}" if at == "socket" else f"--url=http://{attached.host.address}"
    done = attached.run(*arguments, target, "--output=json")
    assert (done.returncode, done.stderr) == (0, "")
    printed, answer = json.loads(done.stdout), attached.get(path)
    definitions = SCHEMA if schema == "Status" else {"$ref": f"#/$defs/{schema}"}
    assert not problems(printed, definitions, SCHEMA)
    # As the API writes it, not as this command would.
    assert done.stdout == json.dumps(printed, separators=(",", ":"), ensure_ascii=False)
    if schema == "InformerRow":
        answer = next(informer for informer in answer["informers"] if informer["id"] == "ConfigMap.v1")
    assert shape(printed) == shape(answer)


def shape(value: Any) -> Any:
    """Return a value without its numbers and times."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    changes = isinstance(value, (int, float)) or value is None or value[:3] in ("202", "run")
    return None if changes else value


@behaviour("operations/OP83")
@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("queue", "busy/nmaes"), "no controller `busy/nmaes`", "did you mean `busy/names`?"),
        (("queue", "bsy/names"), "no plugin `bsy`", "did you mean `busy`?"),
        (("queue", "names", "--failing"), "no controller `names`", "controllers are named `PLUGIN/NAME`"),
        (("explain-key", "busy/cam", "a"), "no controller `busy/cam`", "did you mean `busy/calm`?"),
        (("informers", "ConfigMap.v2"), "no informer `ConfigMap.v2`", "did you mean `ConfigMap.v1`?"),
        (("queue", "busy/keys", "--part=queued", "--after=x"), "invalid cursor `x`", "`after` is the `next` of the"),
    ],
)
def test_an_unknown_name_is_a_mistake_of_the_user(
    attached: Attached, arguments: tuple[str, ...], error: str, hint: str
) -> None:
    done = attached.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    first, _, second = done.stderr.splitlines()
    assert first == f"error: {error}"
    assert second.startswith(f"hint: {hint}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("queue", "--part=queued"),
        ("queue", "busy/keys", "--after=x"),
        ("queue", "busy/keys", "--failing", "--part=queued"),
        ("queue", "busy/keys", "--limit=0"),
        ("top", "--interval=0"),
        ("top", "--interval=soon"),
        ("top", "--sort=colour"),
        ("top", "--url=http://a", "--socket=/b"),
        ("explain-key", "busy/names"),
        ("enqueue", "busy/names"),
        ("enqueue", "busy/names", "a", "--all"),
        ("enqueue", "busy/names", "a", "--priority=1"),
        ("log-level",),
        ("log-level", "busy", "loud"),
        ("log-level", "debug", "--for=later"),
        ("pause", "busy/"),
        ("pause", "busy", "--url=http://127.0.0.1:1"),
    ],
)
def test_a_command_line_that_cannot_work_is_refused(attached: Attached, arguments: tuple[str, ...]) -> None:
    done = attached.run(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@behaviour("operations/OP81")
@pytest.mark.parametrize("name", [*READING, *ACTING])
def test_without_a_host_each_command_says_so(attached: Attached, tmp_path: Path, name: str) -> None:
    arguments = (READING | ACTING)[name]
    targets = [(f"--socket={tmp_path}/1.sock",)]
    if name != "plugins":
        # That one then lists what is installed.
        targets.append(())
    if name in READING:
        targets.append(("--url=http://127.0.0.1:1",))
    for target in targets:
        done = attached.run(*arguments, *target, XDG_RUNTIME_DIR=str(tmp_path))
        assert (done.returncode, done.stdout) == (1, ""), target
        first, blank, second = done.stderr.splitlines()
        assert first.startswith("error: no host ")
        assert blank == ""
        assert second.startswith("hint: ")


@behaviour("operations/OP81")
def test_each_command_that_attaches_is_tested_without_a_host() -> None:
    local = {
        "run",
        "chart",
        "check",
        "completion",
        "crds",
        "dev",
        "finalizers",
        "models",
        "manifests",
        "new",
        "settings",
        "shards",
        "sandbox",
        "version",
        "webhooks",
    }
    assert {*READING, *ACTING} == {*COMMANDS} - local


@behaviour("operations/OP90")
def test_with_two_hosts_a_command_needs_a_target(attached: Attached) -> None:
    with HostProcess("--sandbox", "--plugins=busy", environment=attached.environment) as other:
        socket = other.line("local socket at ")["msg"].removeprefix("local socket at ")
        for arguments in (READING | ACTING).values():
            if arguments[0] == "plugins":
                continue
            done = attached.run(*arguments)
            assert (done.returncode, done.stdout) == (2, "")
            first, _, second = done.stderr.splitlines()
            assert first.startswith("error: 2 hosts of this user run: ")
            assert str(attached.socket) in first
            assert socket in first
            assert second == "hint: choose one with `--socket PATH`"
        assert attached.run("queue", f"--socket={socket}").returncode == 0
    assert attached.run("queue").returncode == 0


@behaviour("oncall/OC15")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("explain-k", ["explain-key"]),
        ("queue --fai", ["--failing"]),
        ("queue b", ["busy/names", "busy/keys", "busy/calm", "busy/picky"]),
        ("pause bu", ["busy", "busy/names", "busy/keys", "busy/calm", "busy/picky"]),
        ("resume waits/", ["waits/things"]),
        ("informers Conf", ["ConfigMap.v1"]),
        ("log-level de", ["debug"]),
        ("log-level bu", ["busy"]),
        ("explain-key busy/keys lon", ["long"]),
        ("explain-key busy/names kube-system/", ["kube-system/kube-root-ca.crt"]),
        ("enqueue busy/keys long lat", ["later"]),
        ("explain-key busy/none a", []),
        ("run --plugins bu", ["busy"]),
        ("run --plugins busy,wa", ["busy,waits"]),
        ("run --log-level w", ["warning"]),
    ],
)
def test_names_are_completed(attached: Attached, words: str, names: list[str]) -> None:
    number = str(len(words.split()))
    variables = {"_CTRLHOST_COMPLETE": "bash_complete", "COMP_WORDS": f"ctrlhost {words}", "COMP_CWORD": number}
    done = attached.run(**variables)
    assert done.stderr == ""
    assert sorted(line.partition(",")[2] for line in done.stdout.split()) == sorted(names)


@behaviour("oncall/OC15")
def test_without_a_host_nothing_is_completed_and_nothing_is_said(attached: Attached, tmp_path: Path) -> None:
    variables = {"_CTRLHOST_COMPLETE": "bash_complete", "COMP_WORDS": "ctrlhost queue b", "COMP_CWORD": "2"}
    done = attached.run(**variables, XDG_RUNTIME_DIR=str(tmp_path))
    assert (done.stdout.strip(), done.stderr) == ("", "")
