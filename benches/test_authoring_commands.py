"""What the author of a plugin waits for: a new project and its tools, the first run of a file, the run after a change.

The figures are those of the rows authoring/AN2 and authoring/AN10, and of the same table.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ctrlhost
from tests.support.host_process import HostProcess
from tests.support.waiting import eventually
from tests.support.wheelhouse import FOLDERS, environment_with, run, wheelhouse

if TYPE_CHECKING:
    from benches.ratios import Ratios

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "examples/memcached"
TOOLS = ("editables", "hatchling", "mypy", "pytest", "ruff")


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables of a terminal with ctrlhost installed, and wheels at hand."""
    wheels = wheelhouse(tmp_path_factory.mktemp("wheels"), (*FOLDERS, *TOOLS))
    home, environment = tmp_path_factory.mktemp("home"), environment_with(wheels)
    run(sys.executable, "-m", "venv", home, cwd=home, environment=environment)
    run(home / "bin/pip", "install", "--quiet", "ctrlhost[sandbox]", cwd=home, environment=environment)
    return environment_with(wheels, home / "bin")


@pytest.mark.behaviour("authoring/AN2")
def test_a_new_project(ratios: Ratios, terminal: dict[str, str], tmp_path: Path) -> None:
    began = time.perf_counter()
    times = []
    for number in range(3):
        run("ctrlhost", "new", f"op-{number}", "--kind", "Memcached", cwd=tmp_path, environment=terminal)
        times.append(time.perf_counter() - began - sum(times))
    ratios.add("authoring", "ctrlhost new", "s", statistics.median(times))

    began = time.perf_counter()
    run("ctrlhost", "new", "memcached", "--kind", "Memcached", cwd=tmp_path, environment=terminal)
    project = tmp_path / "memcached"
    run(sys.executable, "-m", "venv", ".venv", cwd=project, environment=terminal)
    run(project / ".venv/bin/pip", "install", "--quiet", "-e", ".[dev]", cwd=project, environment=terminal)
    command = [".venv/bin/ctrlhost", "dev", "--plugins=memcached", "--listen=127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--manifest=examples/memcached.yaml"],
        cwd=project,
        env=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        with process.stdout:
            client = ctrlhost.Client.load(process.stdout.readline().removeprefix("kubeconfig: ").strip())
        eventually(lambda: client.find("apps/v1", "Deployment", "example", "default"), 60, pause=0.02)
        ratios.add("authoring", "ctrlhost new to the first reconcile", "s", time.perf_counter() - began)
        client.close()
    finally:
        process.terminate()
        process.wait(30)

    for name, tool in (("tests", ["pytest", "--quiet"]), ("mypy --strict", ["mypy", "--strict"])):
        began = time.perf_counter()
        run(project / ".venv/bin" / tool[0], *tool[1:], cwd=project, environment=terminal)
        ratios.add("authoring", f"new project: {name}", "s", time.perf_counter() - began)


def test_a_file_until_it_runs(ratios: Ratios) -> None:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        with HostProcess(str(SAMPLE / "memcached.py"), "--sandbox", forked=False) as host:
            host.line("plugin memcached running")
            assert host.get("/readyz")[0] == 200
            times.append(time.perf_counter() - began)
            host.stop()
    ratios.add("authoring", "ctrlhost run FILE.py --sandbox until it runs", "s", statistics.median(times))


@pytest.mark.behaviour("authoring/AN10")
def test_a_change_until_the_new_code_runs(ratios: Ratios, tmp_path: Path) -> None:
    file, source, times = tmp_path / "memcached.py", (SAMPLE / "memcached.py").read_text(encoding="utf-8"), []
    file.write_text(source, encoding="utf-8")
    with HostProcess(str(file), f"--manifest={SAMPLE / 'cache.yaml'}", command="dev", forked=False) as dev:
        client = ctrlhost.Client.load(dev.kubeconfig)

        def image() -> str:
            deployment = client.find("apps/v1", "Deployment", "cache", "default")
            return (
                str(deployment["spec"]["template"]["spec"]["containers"][0]["image"]) if deployment is not None else ""
            )

        eventually(lambda: image() == "memcached:1.6", 60)
        for number in range(7):
            began = time.perf_counter()
            file.write_text(source.replace("memcached:1.6", f"memcached:1.{number}"), encoding="utf-8")
            eventually(lambda wanted=f"memcached:1.{number}": image() == wanted, 60, pause=0.01)
            times.append(time.perf_counter() - began)
        client.close()
        dev.stop()
    ratios.add("authoring", "ctrlhost dev: change to the first run with new code", "s", statistics.median(times))


@pytest.mark.behaviour("authoring/AD6")
def test_an_import_and_an_installation(ratios: Ratios, terminal: dict[str, str], tmp_path: Path) -> None:
    """The environment of `terminal` has ctrlhost and what it requires; the size is that with the four plugins."""
    model = "import msgspec\nclass Spec(msgspec.Struct): size: int = 1\n"
    model += "@ctrlhost.resource('example.com/v1')\nclass Thing(ctrlhost.Model[Spec, None]): pass\n"
    for name, code in (("ctrlhost", ""), ("ctrlhost.Plugin and a model", f"ctrlhost.Plugin()\n{model}")):
        timed = f"import time; began = time.perf_counter()\nimport ctrlhost\n{code}print(time.perf_counter() - began)"
        times = [float(run("python", "-c", timed, cwd=tmp_path, environment=terminal)) for _ in range(11)]
        # The first run compiles.
        ratios.add("authoring", f"import of {name}", "s", statistics.median(times[1:]))
    plugins = [file.parent for file in sorted(ROOT.glob("plugins/*/pyproject.toml"))]
    run("pip", "install", "--quiet", "--no-deps", *plugins, cwd=tmp_path, environment=terminal)
    printed = run("python", "-c", "import ctrlhost; print(ctrlhost.__path__[0])", cwd=tmp_path, environment=terminal)
    packages = Path(printed.strip()).parent
    # As pip does where it is not told otherwise.
    run("python", "-m", "compileall", "-q", "-j0", packages, cwd=tmp_path, environment=terminal)
    sizes = {
        entry.name: sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
        for entry in packages.iterdir()
        if not entry.name.startswith(("pip", "setuptools"))
    }
    ratios.add("authoring", "installed size", "B", sum(sizes.values()))
    official = sum(size for name, size in sizes.items() if name.startswith("kubernetes"))
    ratios.add("authoring", "installed size without kubernetes", "B", sum(sizes.values()) - official)
