"""Each misbehaviour of an evil plugin beside a good plugin under load: the good one and the probes go on."""

from __future__ import annotations

import ast
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.host.conftest import Distributions
from tests.support.host_process import HostProcess
from tests.support.https_client import trusting
from tests.support.plugin_modules import config_map
from tests.support.webhook_host import review

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.control_plane import ControlPlane

FOLDER = Path(__file__).parent
#: What an evil plugin does in its own code, to the process, with the values that it returns, and in its webhook.
PARTS = ("plugin", "process", "values", "webhooks")
SOURCES = [(FOLDER / f"evil_{part}.py").read_text(encoding="utf-8") for part in PARTS]
#: The dictionaries of the sources whose keys are misbehaviours.
TABLES = ("SETUPS", "CRDS", "VALIDATORS", "MUTATORS")
#: Reviews that the webhook of an evil plugin gets at once: as many as it has threads, and some that wait.
REVIEWS = 12
#: ConfigMaps that change meanwhile, and how often each one does.
MAPS, CHANGES = 5, 10
PROBES = ("/livez", "/readyz?verbose", "/healthz?verbose", "/metrics", "/debug/queues")
#: Those that say with 503 that the evil plugin has failed.
REPORTS = ("/readyz?verbose", "/healthz?verbose")
GOOD = "[+]plugin/good ok: running"
#: The misbehaviour that keeps everything else in the process from running.
HOLDS = "reconcile_holds_the_interpreter"
#: Characters that a probe may answer with; 10,000 series take about 300,000.
LARGEST = 1_000_000
#: What holds the interpreter lock, or all of it, needs a process of its own.
OPTIONS = (
    "--set=supervision.evil.deadlines.hook=500ms",
    "--set=supervision.evil.deadlines.callback=500ms",
    "--set=supervision.evil.deadlines.probe=500ms",
    "--set=supervision.evil.restart_delay=200ms",
    # What computes without end does so in a thread of each attempt.
    "--set=supervision.evil.restart_limit=2",
    "--set=host.drain_timeout=1s",
    "--set=host.webhook_listen=127.0.0.1:0",
    "--set=host.webhook_url=https://127.0.0.1:0",
)


def names_in(source: str) -> set[str]:
    """Return what the source compares `EVIL` with, the keys of its dictionaries of those, and its functions of them."""
    tree = ast.parse(source)
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "EVIL":
            named.update(str(constant.value) for constant in node.comparators if isinstance(constant, ast.Constant))
        if isinstance(node, ast.Call) and "EVIL" in [
            argument.id for argument in node.args if isinstance(argument, ast.Name)
        ]:
            named.update(keys_of(node.func.value) if isinstance(node.func, ast.Attribute) else ())
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.update(keys_of(node.value) if node.targets[0].id in TABLES else ())
        # Those of the plugin file set something up for a name.
        if isinstance(node, ast.FunctionDef) and "globals()[EVIL](plugin)" in source:
            named.update([node.name] if [argument.arg for argument in node.args.args] == ["plugin"] else ())
    return {name for name in named if not name.startswith("ctrlhost_")}


def keys_of(node: ast.expr) -> list[str]:
    return [str(key.value) for key in node.keys if isinstance(key, ast.Constant)] if isinstance(node, ast.Dict) else []


#: How the misbehaviours of webhooks begin.
WEBHOOK = "webhook_"
#: The misbehaviour that comes while the host stops.
AT_THE_END = "stopping_hangs"
#: The source of the plugin by misbehaviour.
MISBEHAVIOURS = {name: source for source in SOURCES for name in sorted(names_in(source))}


@pytest.fixture
def start(tmp_path: Path, control_plane: ControlPlane, namespace: str) -> Iterator[Callable[[str], HostProcess]]:
    """Start a host with both plugins; only the good one need be well."""
    folder = tmp_path / "site"
    folder.mkdir()
    distributions = Distributions(folder)
    for calm in ("good", "calm"):
        distributions.add(calm, (FOLDER / f"{calm}_plugin.py").read_text(encoding="utf-8"))
    with ExitStack() as running:

        def start_host(name: str) -> HostProcess:
            distributions.add("evil", MISBEHAVIOURS[name])
            environment = distributions.environment(EVIL=name)
            options = [*OPTIONS, f"--kubeconfig={control_plane.kubeconfig}", f"--namespace={namespace}"]
            plugins = "--plugins=evil,good,calm" if name.startswith(WEBHOOK) else "--plugins=evil,good"
            return running.enter_context(HostProcess(plugins, *options, environment=environment))

        yield start_host


@pytest.mark.behaviour("faster/FA18")
@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_nobody_feels_what_an_evil_plugin_does(
    start: Callable[[str], HostProcess], control_plane: ControlPlane, namespace: str, name: str
) -> None:
    host = start(name)
    host.line("plugin good running")
    changing = threading.Thread(target=change, args=(control_plane, namespace))
    changing.start()
    # The page of the evil plugin hangs or fails, in time.
    threading.Thread(target=visit, args=(host,), daemon=True).start()
    if name.startswith(WEBHOOK):
        ask_webhooks(host, "mutate" if "mutates" in name else "validate")
    for path in PROBES * 3:
        status, body = host.get(path)
        assert status == 200 or (status == 503 and path in REPORTS), (path, status, body[:2000])
        assert len(body) < LARGEST, path
    changing.join(60)
    assert not changing.is_alive()
    for number in range(MAPS):
        host.line(f"good saw map-{number} {CHANGES} on its thread")
        host.line(f"good saw map-{number} {CHANGES} on its loop")
    assert host.get("/livez") == (200, "ok")
    assert host.get("/good/") == (200, "good")
    if name == HOLDS:
        # The loop of the good plugin cannot turn meanwhile, which its state says until it turns again.
        host.eventually(lambda: GOOD in host.get("/readyz?verbose")[1].splitlines(), GOOD)
    assert GOOD in host.get("/readyz?verbose")[1].splitlines()
    assert "[+]good/well ok" in host.get("/healthz?verbose")[1].splitlines()
    if name != AT_THE_END:
        host.wait_for(lambda: "evil" in host.output, "misbehaviour")
    assert host.stop() == 0
    assert host.line("stopped")
    assert "evil" in host.output
    assert not [line for line in host.lines if "plugin good f" in line["msg"]]
    assert not [line for line in host.lines if "Fatal Python error" in line["msg"]]


def visit(host: HostProcess) -> None:
    # The host may end before the answer does.
    with suppress(OSError, HTTPException):
        host.get("/evil/")


def ask_webhooks(host: HostProcess, sort: str) -> None:
    """Ask the webhook of the evil plugin again and again, and require an answer of the calm one meanwhile."""
    host.line("plugin evil running")
    address = str(host.line("serving webhooks on https://")["msg"]).rpartition("//")[2]

    def ask(path: str) -> tuple[int, bytes]:
        connection = HTTPSConnection(address, timeout=30, context=trusting())
        with closing(connection):
            connection.request("POST", path, review(config_map("asked", "default")))
            response = connection.getresponse()
            return response.status, response.read()

    def is_calm() -> bool:
        # A client that a busy machine holds up for 5 s in its handshake is cut off.
        with suppress(ConnectionError):
            status, body = ask("/validate/calm/calm")
            assert status == 200
            return b"calmly" in body
        return False

    with ThreadPoolExecutor(REVIEWS) as threads:
        asked = [threads.submit(ask, f"/{sort}/evil/evil") for _ in range(REVIEWS)]
        for _ in range(3):
            host.eventually(is_calm, "answer of the calm plugin")
        answers = {future.result()[0] for future in asked if not isinstance(future.exception(), ConnectionError)}
        assert answers <= {200, 429, 500, 503, 504}


def change(control_plane: ControlPlane, namespace: str) -> None:
    for number in range(1, CHANGES + 1):
        for index in range(MAPS):
            labels = {"good": "yes"}
            control_plane.client.apply(
                config_map(f"map-{index}", namespace, labels=labels, number=str(number)), field_manager="load"
            )


def test_the_suite_has_as_many_misbehaviours_as_the_documentation_says() -> None:
    text = (FOLDER.parents[1] / "docs" / "how-to" / "isolation.md").read_text(encoding="utf-8")
    assert f"a plugin with {len(MISBEHAVIOURS)} misbehaviours" in text
    assert len(MISBEHAVIOURS) >= 46
