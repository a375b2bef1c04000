"""Each command of the tutorial, in order, with wheels of this tree and no index; its code is of the new project."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import ctrlhost
from tests.support.control_plane import require_kube_apiserver
from tests.support.guides import Terminal, steps_of
from tests.support.programs import install_programs
from tests.support.waiting import eventually
from tests.support.wheelhouse import FOLDERS, environment_with, wheelhouse

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
OF_THE_PROJECT = re.compile(r"<!-- new: (?P<path>\S+) -->\n```python\n(?P<code>.*?)```", re.DOTALL)
#: What the project's `pyproject.toml` names, and what builds it.
ROOTS = ("editables", "hatchling", "mypy", "pytest", "ruff")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Return a terminal in an empty folder, with `kubectl` and wheels only."""
    require_kube_apiserver()
    wheels = wheelhouse(tmp_path / "wheels", (*FOLDERS, *ROOTS))
    programs = install_programs(tmp_path / "programs")
    for name in ("ctrlhost", "ctrlhost-sandbox"):
        (programs / name).unlink()
    environment = environment_with(wheels, programs)
    # As the reader's shell has it, whatever started these tests.
    environment.pop("VIRTUAL_ENV", None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        environment["CTRLHOST_HOST__LISTEN"] = f"127.0.0.1:{free.getsockname()[1]}"
    folder = tmp_path / "reader"
    folder.mkdir()
    with Terminal(folder, tmp_path / "notes", environment) as session:
        yield session


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.behaviour("authoring/AD1")
def test_each_step_works_as_written(terminal: Terminal, tmp_path: Path) -> None:
    steps = steps_of(PAGE)
    assert len(steps) == 7
    project = tmp_path / "reader" / "memcached-op"
    for step in steps:
        assert not step.left_out
        output = terminal.run(step.commands)
        assert terminal.failures() == [], f"{step.commands}\n{output}"
        if "kubectl patch" in step.commands:
            with_sandbox(project)
        if step.commands == "pytest\n":
            assert re.search(r"\d+ passed in", output)
    for name, kind in (("crds.yaml", "CustomResourceDefinition"), ("manifests.yaml", "ClusterRole")):
        assert f"kind: {kind}\n" in (project / name).read_text(encoding="utf-8")
    blocks = [match.groups() for match in OF_THE_PROJECT.finditer(PAGE)]
    assert len(blocks) == 5
    for path, code in blocks:
        assert code.strip() in (project / path).read_text(encoding="utf-8"), path


def with_sandbox(project: Path) -> None:
    """Assert that the object is reconciled, and that the repair left an event."""
    client = ctrlhost.Client.load(project / "sandbox.yaml")
    memcached = client.get("cache.example.com/v1alpha1", "Memcached", "example", "default")
    assert memcached["status"]["conditions"][0]["message"] == "0 of 3 ready"
    deployment = client.get("apps/v1", "Deployment", "example", "default")
    assert deployment["spec"]["replicas"] == 3
    assert deployment["metadata"]["ownerReferences"][0]["uid"] == memcached["metadata"]["uid"]
    eventually(lambda: "Repaired" in {obj["reason"] for obj in client.list("events.k8s.io/v1", "Event")}, 30)
    client.close()
