"""`ctrlhost queue --failing` without a controller: the failing keys of all controllers."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.host.conftest import StartHost
from tests.support import fork_server
from tests.support.waiting import eventually

#: Keys fail as often as their names say, and are then given up; the last controller has none.
FAILS = """
import ctrlhost
from ctrlhost import TerminalError

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    def reconcile(ctx, key):
        if ctx.attempt >= int(key.rpartition("-")[2]):
            raise TerminalError("given up")
        raise ValueError("not yet")

    for name, keys in {CONTROLLERS}.items():
        handle = plugin.add_controller(name, reconcile)
        for key in keys:
            handle.enqueue(key)
"""

HINT = "hint: `ctrlhost explain-key PLUGIN/CONTROLLER KEY` prints the traceback\n"


def failing(path: str, address: str) -> Any:
    with urllib.request.urlopen(f"http://{address}/api/v1{path}", timeout=60) as answer:
        return json.load(answer)


@pytest.mark.behaviour("findings3/NA19")
@pytest.mark.behaviour("oncall/OC14")
def test_the_failing_keys_of_all_controllers_are_listed_worst_first(start_host: StartHost, distributions: Any) -> None:
    first = {"one": [f"a-{number}" for number in range(1, 13)], "two": ["b-14"]}
    distributions.add("fails", FAILS.replace("{CONTROLLERS}", repr(first)))
    distributions.add("apart", FAILS.replace("{CONTROLLERS}", repr({"three": ["c-13"], "calm": []})))
    queues = (("fails/one", 12), ("fails/two", 1), ("apart/three", 1))
    quick = [f"--set=controllers.{name}.max_delay=5ms" for name, _ in queues]
    host = start_host("--sandbox", "--isolate=apart", *quick, plugins="fails,apart")

    def run(*arguments: str) -> Any:
        return fork_server.run("queue", *arguments, f"--url=http://{host.address}", env=distributions.environment())

    for name, count in queues:
        path = f"/queues/{name}?part=failing"
        eventually(
            lambda path=path, count=count: [
                item["due_seconds"] for item in failing(path, host.address)["items"]
            ] == [None] * count,
            120,
        )  # fmt: skip
    done = run("--failing")
    assert (done.returncode, done.stderr) == (0, HINT)
    sentence, _, causes, *rest = done.stdout.splitlines()
    assert sentence.startswith("14 of 14 keys fail, ")
    assert causes.split() == ["KEYS", "CONTROLLER", "SINCE", "LAST", "FAILURES/s", "CAUSE"]
    blank = rest.index("")
    # Those with the most keys are first.
    counts = [int(line.split()[0]) for line in rest[:blank]]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 12
    assert " fails/one " in rest[0]
    heading, *lines = rest[blank + 1 :]
    assert heading.split() == ["CONTROLLER", "KEY", "FAILURES", "NEXT", "RETRY", "RECONCILE", "LAST", "ERROR"]
    wanted = [["fails/two", "b-14", "14"], ["apart/three", "c-13", "13"]]
    wanted += [["fails/one", f"a-{number}", str(number)] for number in range(12, 0, -1)]
    assert [line.split()[:3] for line in lines] == wanted
    assert all("given up" in line and "TerminalError: given up (" in line for line in lines)
    some = run("--part=failing", "--limit=3")
    keys = some.stdout.splitlines()[blank + 4 :]
    assert [line.split()[:3] for line in keys[1:]] == wanted[:3]
    assert some.stderr == f"{HINT}14 failing in all; name a controller for its others, or set --limit\n"
    worst = json.loads(run("--failing", "--output=json").stdout)["failing"]
    assert [[key["controller"], key["key"], str(key["failures"])] for key in worst] == wanted[:10]
    # The other parts, and what continues them, are those of one controller.
    assert run("--part=queued").returncode == run("--failing", "--after=3").returncode == 2
