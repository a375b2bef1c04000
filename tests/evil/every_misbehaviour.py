"""Each misbehaviour of the evil plugin beside a good plugin under load: the good one and the probes go on."""

from __future__ import annotations

import ast
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.host.conftest import Distributions
from tests.support.host_process import HostProcess
from tests.support.plugin_modules import config_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.control_plane import ControlPlane

FOLDER = Path(__file__).parent
SOURCE = (FOLDER / "evil_plugin.py").read_text(encoding="utf-8")
#: ConfigMaps that change meanwhile, and how often each one does.
MAPS, CHANGES = 5, 10
PROBES = ("/livez", "/readyz?verbose", "/healthz?verbose", "/metrics", "/debug/queues")
#: What holds the interpreter lock, or all of it, needs a process of its own.
OPTIONS = (
    "--set=supervision.evil.deadlines.hook=500ms",
    "--set=supervision.evil.deadlines.callback=500ms",
    "--set=supervision.evil.deadlines.probe=500ms",
    "--set=supervision.evil.restart_delay=200ms",
    # What computes without end does so in a thread of each attempt.
    "--set=supervision.evil.restart_limit=2",
    "--set=host.drain_timeout=1s",
)


def misbehaviours() -> list[str]:
    """Return the names that the evil plugin compares `EVIL` with, in order."""
    tree = ast.parse(SOURCE)
    named: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "EVIL":
            named.update((one.value, None) for one in node.comparators if isinstance(one, ast.Constant))
        if isinstance(node, ast.Dict):
            named.update((str(key.value), None) for key in node.keys if isinstance(key, ast.Constant))
    return sorted(named)


@pytest.fixture
def start(tmp_path: Path, control_plane: ControlPlane, namespace: str) -> Iterator[Callable[[str], HostProcess]]:
    """Start a host with both plugins; only the good one need be well."""
    folder = tmp_path / "site"
    folder.mkdir()
    distributions = Distributions(folder)
    distributions.add("evil", SOURCE)
    distributions.add("good", (FOLDER / "good_plugin.py").read_text(encoding="utf-8"))
    with ExitStack() as running:

        def start_host(name: str) -> HostProcess:
            environment = distributions.environment(EVIL=name)
            options = [*OPTIONS, f"--kubeconfig={control_plane.kubeconfig}", f"--namespace={namespace}"]
            return running.enter_context(HostProcess("--plugins=evil,good", *options, environment=environment))

        yield start_host


@pytest.mark.parametrize("name", misbehaviours())
def test_nobody_feels_what_an_evil_plugin_does(
    start: Callable[[str], HostProcess], control_plane: ControlPlane, namespace: str, name: str
) -> None:
    host = start(name)
    host.line("plugin good running")
    changing = threading.Thread(target=change, args=(control_plane, namespace))
    changing.start()
    # The page of the evil plugin hangs or fails, in time.
    visit = threading.Thread(target=lambda: host.get("/evil/"), daemon=True)
    visit.start()
    for path in PROBES * 3:
        status, body = host.get(path)
        assert status in (200, 503), (path, body)
    assert host.get("/livez") == (200, "ok")
    changing.join(60)
    for number in range(MAPS):
        host.line(f"good saw map-{number} {CHANGES}")
    assert "[+]plugin/good ok: running" in host.get("/readyz?verbose")[1]
    assert host.stop() == 0
    assert not [line for line in host.lines if "Fatal Python error" in line["msg"]]


def change(control_plane: ControlPlane, namespace: str) -> None:
    for number in range(1, CHANGES + 1):
        for one in range(MAPS):
            labels = {"good": "yes"}
            control_plane.client.apply(
                config_map(f"map-{one}", namespace, labels=labels, number=str(number)), field_manager="load"
            )


def test_the_suite_has_thirty_misbehaviours() -> None:
    assert len(misbehaviours()) >= 30
