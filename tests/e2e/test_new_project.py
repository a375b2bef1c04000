"""The projects that `ctrlhost new` writes, installed from wheels alone: their tools, their tests, their first run."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ctrlhost
from tests.support.waiting import eventually
from tests.support.wheelhouse import FOLDERS, environment_with, run, wheelhouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.control_plane import KubeApiserver

#: What the project's `pyproject.toml` names, and what builds it.
ROOTS = ("editables", "hatchling", "mypy", "pytest", "ruff")
VARIANTS = {
    "kind": ["--kind", "Memcached"],
    "group": ["--kind", "Memcached", "--group", "cache.example.com"],
    "two owned": ["--kind", "Memcached", "--owns", "v1/ConfigMap", "--owns", "v1/Service"],
    "cluster": ["--kind", "Memcached", "--cluster-scoped", "--owns", "apps/v1/StatefulSet"],
    "none": [],
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheels at hand."""
    return wheelhouse(tmp_path_factory.mktemp("wheels"), (*FOLDERS, *ROOTS))


@pytest.fixture(scope="module")
def author(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment with ctrlhost and the tools, for all variants."""
    home, terminal = tmp_path_factory.mktemp("author"), environment_with(wheels)
    run(sys.executable, "-m", "venv", home, cwd=home, environment=terminal)
    run(home / "bin/pip", "install", "--quiet", "ctrlhost[sandbox]", *ROOTS, cwd=home, environment=terminal)
    return home / "bin"


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.behaviour("authoring/AN1")
@pytest.mark.behaviour("authoring/AN3")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_tools_and_tests_of_a_new_project_pass(wheels: Path, author: Path, tmp_path: Path, variant: str) -> None:
    terminal = environment_with(wheels, author)
    # The name differs, so that one environment can have all of them.
    name = f"op-{variant.replace(' ', '-')}"
    run("ctrlhost", "new", name, *VARIANTS[variant], cwd=tmp_path, environment=terminal)
    project = tmp_path / name
    programs = author
    if variant == "kind":
        # All of it as an author does it; the others share an environment.
        run(sys.executable, "-m", "venv", ".venv", cwd=project, environment=terminal)
        programs = project / ".venv/bin"
        run(programs / "pip", "install", "--quiet", "-e", ".[dev]", cwd=project, environment=terminal)
    else:
        options = ("--quiet", "--no-deps", "--no-build-isolation")
        run(programs / "pip", "install", *options, "-e", ".[dev]", cwd=project, environment=terminal)
    run(programs / "pip", "check", cwd=project, environment=terminal)
    run(programs / "ruff", "check", "--no-cache", cwd=project, environment=terminal)
    run(programs / "ruff", "format", "--check", "--no-cache", cwd=project, environment=terminal)
    run(programs / "mypy", "--strict", "--cache-dir", author.parent / "mypy-cache", cwd=project, environment=terminal)
    tested = run(programs / "pytest", "-p", "no:cacheprovider", cwd=project, environment=terminal)
    assert re.search(r"\d+ passed in", tested)
    assert not re.search(r"skipped|failed|warning", tested)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.behaviour("authoring/AT12")
def test_the_tests_of_a_new_project_pass_unchanged_on_a_real_server(
    wheels: Path, author: Path, tmp_path: Path, own_kube_apiserver: KubeApiserver
) -> None:
    client, terminal = own_kube_apiserver.client, environment_with(wheels, author)

    def left() -> set[tuple[str, str]]:
        kinds = (
            ("v1", "Namespace"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        )
        return {(kind, obj["metadata"]["name"]) for version, kind in kinds for obj in client.list(version, kind)}

    before = left()
    run("ctrlhost", "new", "op-real", "--kind", "RealMemcached", cwd=tmp_path, environment=terminal)
    project = tmp_path / "op-real"
    options = ("--quiet", "--no-deps", "--no-build-isolation")
    run("pip", "install", *options, "-e", ".", cwd=project, environment=terminal)
    server = f"--ctrlhost-server=kubeconfig:{own_kube_apiserver.kubeconfig}"
    assert " passed in" in run("pytest", "-p", "no:cacheprovider", server, cwd=project, environment=terminal)
    # Only a controller removes the namespaces that were deleted.
    own_kube_apiserver.start_controllers()
    eventually(lambda: left() <= before, 60, "the end of what the tests have made")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Hold processes that end with the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.behaviour("authoring/AN2")
def test_five_commands_lead_to_the_first_reconcile(
    wheels: Path, author: Path, tmp_path: Path, running: list[subprocess.Popen[str]]
) -> None:
    """The commands are those that `new` prints, and that of `new`; the time that they take is a benchmark's."""
    terminal = environment_with(wheels, author)
    first = "ctrlhost new my-op --kind Memcached"
    done = subprocess.run(shlex.split(first), cwd=tmp_path, env=terminal, capture_output=True, text=True, check=True)
    change, install, dev = done.stderr.splitlines()
    assert change == "cd my-op"
    # The second line has two commands: environment and installation.
    assert len([first, change, *install.split(" && "), dev]) == 5
    run("sh", "-c", f"{change} && {install}", cwd=tmp_path, environment=terminal)
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        command = ["sh", "-c", f"{change} && exec {dev} --listen 127.0.0.1:0"]
        process = subprocess.Popen(command, cwd=tmp_path, env=terminal, stdout=subprocess.PIPE, stderr=log, text=True)
    running.append(process)
    assert process.stdout is not None
    kubeconfig = process.stdout.readline().removeprefix("kubeconfig: ").strip()
    assert kubeconfig, (tmp_path / "log").read_text()
    client = ctrlhost.Client.load(kubeconfig)
    deployment = eventually(
        lambda: client.find("apps/v1", "Deployment", "example", "default"), 60, "the Deployment of the example"
    )
    client.close()
    assert deployment["spec"]["replicas"] == 2
    assert deployment["metadata"]["ownerReferences"][0]["kind"] == "Memcached"
