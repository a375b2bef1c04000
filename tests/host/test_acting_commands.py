"""Commands that act on a running host, from the command line to what the host does."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost import Client
from tests.host.conftest import Distributions
from tests.host.replicas import LONG
from tests.support import fork_server
from tests.support.admin import ACTING, Acting
from tests.support.host_process import HostProcess
from tests.support.status import get, page_of, status_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

#: Failing keys of `inside/a` stay in back-off.
SETTINGS = """
[supervision]
log_lines = 0

[controllers."inside/a"]
base_delay = "10m"
max_delay = "10m"
"""


class Operator:
    """The command line beside the hosts of one private directory."""

    def __init__(self, runtime: Path, site: Path) -> None:
        self.runtime = runtime
        self.distributions = Distributions(site)
        self.distributions.add("inside", ACTING)
        self.environment = self.distributions.environment(XDG_RUNTIME_DIR=str(runtime))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return fork_server.run(*arguments, env=self.environment, timeout=120)

    def done(self, *arguments: str) -> str:
        """Return what a command that succeeds prints."""
        result = self.run(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def refused(self, *arguments: str) -> tuple[int, str, str]:
        """Return the exit code of a command that fails, its error and its hint."""
        result = self.run(*arguments)
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) in (1, 3), lines
        assert lines[0].startswith("error: ")
        return result.returncode, lines[0].removeprefix("error: "), lines[-1].removeprefix("hint: ")


@pytest.fixture(scope="module")
def operator() -> Iterator[Operator]:
    # Paths of pytest can be longer than the address of a socket.
    with TemporaryDirectory(prefix="acts-") as folder:
        site = Path(folder) / "site"
        site.mkdir()
        (Path(folder) / "settings.toml").write_text(SETTINGS)
        yield Operator(Path(folder), site)


@pytest.fixture(scope="module")
def acting(operator: Operator) -> Iterator[Acting]:
    arguments = ["--sandbox", "--admin", "--plugins=inside", f"--config={operator.runtime}/settings.toml"]
    with HostProcess(*arguments, environment=operator.environment) as host:
        host.line("plugin inside running")
        host.line("local socket at ")
        yield Acting(host, Client.load(host.kubeconfig), operator.runtime)


@behaviour("operations/OP63")
@behaviour("operations/OP84")
@behaviour("operations/OP86")
@behaviour("authoring/AK6")
def test_pause_and_resume_say_what_they_did(operator: Operator, acting: Acting) -> None:
    gate = acting.folder / "gate"
    acting.create("b", "long", hold=str(gate))
    acting.ran("inside/b", "default/long")
    result = operator.run("pause", "inside/b")
    assert result.returncode == 0
    assert result.stdout == (
        "paused inside/b (1 controller, 1 reconcile still running); "
        "until `ctrlhost resume inside/b` or a restart of this replica\n"
    )
    assert result.stderr == 'hint: to pause for good, set paused = true in [controllers."inside/b"]\n'
    again = operator.done("pause", "inside/b")
    assert again.startswith("inside/b is paused already (1 controller, 1 reconcile still running); until ")
    acting.create("b", "late")
    eventually(lambda: page_of(acting.host, "inside/b")["total"] == 1)
    whole = operator.run("pause", "inside")
    assert whole.stdout.startswith("paused inside (4 controllers, 1 reconcile still running); until ")
    sections = " and ".join(f'[controllers."inside/{name}"]' for name in ("a", "b", "c", "free"))
    assert whole.stderr == f"hint: to pause for good, set paused = true in {sections}\n"
    answer = json.loads(operator.done("resume", "inside/c", "--output=json"))
    assert answer == {"controllers": ["inside/c"], "changed": True, "running": 0, "queued": 0}
    table = operator.done("top", "--once")
    states = {line.split()[0]: line.split()[10] for line in table.splitlines() if line.startswith("inside/")}
    assert states == {"inside/a": "paused", "inside/b": "paused", "inside/c": "ok", "inside/free": "paused"}
    assert table.count("paused by uid ") == 3
    gate.touch()
    acting.host.line("ended inside/b default/long")
    assert acting.runs("inside/b", "default/late") == 0
    explained = operator.done("explain-key", "inside/b", "default/late")
    assert "  verdict    paused: controller inside/b was paused by uid " in explained
    verdict = json.loads(operator.done("explain-key", "inside/b", "default/late", "--output=json"))
    assert verdict["verdict"] == "paused"
    assert f"  verdict    paused: {verdict['facts'][0]}" in explained
    assert operator.done("resume", "inside") == "resumed inside (4 controllers, 1 key queued)\n"
    acting.ran("inside/b", "default/late")
    assert operator.done("resume", "inside") == "inside is not paused (4 controllers, 0 keys queued)\n"


@behaviour("oncall/OC14")
def test_what_is_paused_is_listed_with_who_since_when_and_why(operator: Operator, acting: Acting) -> None:
    assert operator.done("pause") == "no controller is paused\n"
    operator.done("pause", "inside/b", "--reason", "floods the\nAPI")
    result = operator.run("pause")
    heading, line = result.stdout.splitlines()
    assert heading.split() == ["CONTROLLER", "FOR", "BY", "REASON"]
    assert re.fullmatch(r"inside/b +\S+ +uid \d+ pid \d+  floods the\\nAPI", line)
    assert result.stderr == "hint: `ctrlhost resume PLUGIN/CONTROLLER` ends a pause\n"
    acting.create("b", "held")
    eventually(lambda: page_of(acting.host, "inside/b")["total"] == 1)
    assert re.search(
        r"paused by uid \d+ pid \d+: floods the\\nAPI", operator.done("explain-key", "inside/b", "default/held")
    )
    assert operator.refused("pause", "--reason", "why")[0] == 2
    code, error, _ = operator.refused("pause", "inside/b", "--reason", "x" * 201)
    assert (code, "at most 200 characters" in error) == (2, True)
    operator.done("resume", "inside/b")
    assert operator.done("pause") == "no controller is paused\n"


@behaviour("operations/OP87")
@behaviour("operations/OP88")
def test_enqueue_ends_a_back_off_and_warns_of_what_is_not_cached(operator: Operator, acting: Acting) -> None:
    mended = acting.folder / "mended"
    acting.create("a", "broken", fail=str(mended))
    acting.ran("inside/a", "default/broken")
    eventually(lambda: page_of(acting.host, "inside/a", part="failing")["total"] == 1)
    failing = operator.done("queue", "inside/a", "--failing").splitlines()
    (line,) = (line for line in failing if line.startswith("default/broken "))
    assert line.split()[:2] == ["default/broken", "1"]
    assert "KeyError: 'spec' (test_inside.py:" in line
    mended.touch()
    assert operator.done("enqueue", "inside/a", "default/broken") == "queued 1 key of inside/a\n"
    acting.ran("inside/a", "default/broken", 2)
    eventually(lambda: page_of(acting.host, "inside/a", part="failing")["total"] == 0)

    missing = operator.run("enqueue", "inside/a", "default/none", "default/broken")
    assert (missing.returncode, missing.stdout) == (0, "queued 2 keys of inside/a\n")
    assert missing.stderr == "warning: default/none is not in the cache of ConfigMap\n"
    acting.ran("inside/a", "default/none")

    operator.done("pause", "inside/a")
    every = operator.run("enqueue", "inside/a", "--all")
    assert every.stdout == "queued 1 key of inside/a\n"
    assert "warning: inside/a is paused by uid " in every.stderr
    assert [item["priority"] for item in page_of(acting.host, "inside/a")["items"]] == [-100]
    operator.done("enqueue", "inside/a", "--all", "--priority=7")
    (line,) = operator.done("queue", "inside/a", "--part=queued").splitlines()[1:]
    assert line.split()[:3] == ["default/broken", "queued", "7"]
    operator.done("resume", "inside/a")


@behaviour("operations/OP89")
def test_a_log_level_changes_for_a_while(operator: Operator, acting: Acting) -> None:
    said = operator.done("log-level", "inside", "debug", "--for=1h")
    assert said.startswith("inside logs at debug, until 20")
    assert said.endswith("Z (was info)\n")
    acting.create("c", "while-debug")
    acting.host.line("a debug line of default/while-debug")
    assert operator.done("log-level", "inside", "info", "--for=0") == (
        "inside logs at info, until a restart (was debug)\n"
    )
    assert operator.done("log-level", "warning", "--for=1ms").startswith("the host logs at warning, until 20")
    level = json.loads(operator.done("log-level", "ctrlhost.client", "info", "--output=json"))
    assert (level["target"], level["level"]) == ("ctrlhost.client", "info")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("pause", "insid"), "no plugin `insid`", "did you mean `inside`?"),
        (("resume", "inside/fre"), "no controller `inside/fre`", "did you mean `inside/free`?"),
        (("enqueue", "inside/fre", "a"), "no controller `inside/fre`", "did you mean `inside/free`?"),
        (("log-level", "insid", "debug"), "no plugin and no logger `insid`", "did you mean `inside`?"),
    ],
)
def test_an_unknown_name_has_the_nearest_one(
    operator: Operator, acting: Acting, arguments: tuple[str, ...], error: str, hint: str
) -> None:
    assert operator.refused(*arguments) == (2, error, hint)


@pytest.fixture
def sandbox_of_two() -> Iterator[Sandbox]:
    with Sandbox() as server:
        yield server


@behaviour("operations/OP63")
@behaviour("operations/OP86")
@behaviour("operations/OP88")
@behaviour("authoring/AK6")
def test_a_standby_refuses_and_a_host_without_admin_too(operator: Operator, sandbox_of_two: Sandbox) -> None:
    settings = f"--config={operator.runtime}/settings.toml"
    options = ["--leader-elect", "--plugins=inside", settings, *LONG.options()]
    options += [f"--kubeconfig={sandbox_of_two.kubeconfig}", "--set=host.leader_elect_resource_namespace=default"]
    client = Client.load(sandbox_of_two.kubeconfig)
    with ExitStack() as stack:
        stack.callback(client.close)

        def start(name: str, *more: str) -> tuple[Acting, str]:
            environment = operator.environment | {"HOSTNAME": name}
            host = stack.enter_context(HostProcess(*options, *more, environment=environment))
            host.line("plugin inside running")
            socket = host.line("local socket at ")["msg"].removeprefix("local socket at ")
            return Acting(host, client, operator.runtime), f"--socket={socket}"

        first, at_first = start("first", "--admin")
        first.create("c", "known")
        first.ran("inside/c", "default/known")
        second, at_second = start("second", "--admin")
        eventually(lambda: get(second.host, "/keys/inside/c?key=default/known")[1].get("verdict") == "standby")
        for keys in (("default/known",), ("--all",)):
            code, error, hint = operator.refused("enqueue", at_second, "inside/c", *keys)
            assert (code, error) == (1, "this replica stands by for `inside/c`")
            assert hint.startswith("first_")
            assert hint.endswith(" leads: ask that replica")
        explained = operator.done("explain-key", at_second, "inside/c", "default/known")
        assert "  verdict    standby: first_" in explained
        verdict = json.loads(operator.done("explain-key", at_second, "inside/c", "default/known", "--output=json"))
        assert verdict["verdict"] == "standby"
        assert f"  verdict    standby: {verdict['facts'][0]}" in explained
        table = operator.done("top", "--once", at_second)
        assert "  standby of first_" in table.splitlines()[0]
        assert "  leads " in operator.done("top", "--once", at_first).splitlines()[0]

        third, at_third = start("third")
        for arguments in (
            ("pause", "inside"),
            ("resume", "inside"),
            ("enqueue", "inside/c", "a"),
            ("log-level", "info"),
        ):
            assert operator.refused(*arguments, at_third) == (
                1,
                "the admin API is off",
                "start the host with `--admin`, or set host.admin",
            )
        assert operator.done("queue", at_third).startswith("CONTROLLER ")

        # The pause is one of this replica, as the output says: the next leader is not paused.
        said = operator.done("pause", at_first, "inside")
        assert said.endswith("; until `ctrlhost resume inside` or a restart of this replica\n")
        assert all(controller["paused"] for controller in status_of(first.host)["controllers"])
        first.create("c", "after")
        eventually(lambda: page_of(first.host, "inside/c")["total"] == 1)
        first.host.end()
        client.patch("coordination.k8s.io/v1", "Lease", "ctrlhost", "default", {"spec": {"holderIdentity": ""}})

        def leads() -> bool:
            return any(replica.runs("inside/c", "default/after") for replica in (second, third))

        eventually(leads, 60)
        assert not any(controller["paused"] for controller in status_of(second.host)["controllers"])
