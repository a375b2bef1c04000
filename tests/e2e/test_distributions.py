"""ctrlhost and its sandbox, each installed from its wheel alone, and both together."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.wheelhouse import FOLDERS, environment_with, required, run, wheelhouse

HINT = "hint: install it with `pip install 'ctrlhost[sandbox]'`"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheelhouse(tmp_path_factory.mktemp("wheels"), (*FOLDERS, "pytest"))


class Environment:
    """An environment with nothing but what is installed from wheels."""

    def __init__(self, folder: Path, wheels: Path, *requirements: str) -> None:
        self.folder = folder
        self.terminal = environment_with(wheels)
        run(sys.executable, "-m", "venv", folder, cwd=folder, environment=self.terminal)
        if requirements:
            self.install(*requirements)

    def install(self, *requirements: str) -> None:
        run(self.folder / "bin/pip", "install", "--quiet", *requirements, cwd=self.folder, environment=self.terminal)

    def __call__(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self.folder / "bin" / program, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.terminal, capture_output=True, text=True, timeout=120, check=False
        )


PLUGIN = """
import ctrlhost

plugin = ctrlhost.Plugin()


@plugin.controller("v1/ConfigMap")
def reconcile(ctx, obj):
    pass
"""


def test_the_host_alone_says_how_to_get_a_sandbox(wheels: Path, tmp_path: Path) -> None:
    host = Environment(tmp_path, wheels, "ctrlhost")
    (tmp_path / "sample.py").write_text(PLUGIN)
    imported = host("python", "-c", "import ctrlhost, cryptography")
    assert "No module named 'cryptography'" in imported.stderr
    for command in (["run", "sample.py", "--sandbox"], ["dev", "sample.py"], ["sandbox"]):
        done = host("ctrlhost", *command)
        assert (done.returncode, done.stdout) == (2, ""), command
        assert done.stderr.splitlines() == ["error: the sandbox is not installed", "", HINT], command
    manifests = host("ctrlhost", "manifests", "sample.py", "--plugins", "", "--image", "host:1")
    assert manifests.returncode == 0, manifests.stderr
    assert "the definitions were not checked" in manifests.stderr


def test_the_host_is_small(wheels: Path, tmp_path: Path) -> None:
    host = Environment(tmp_path, wheels)
    (site,) = tmp_path.glob("lib/python*/site-packages")
    before = size(site)
    host.install("--no-deps", *required(["ctrlhost"], without=["kubernetes"]))
    host("python", "-m", "compileall", "-q", str(site))
    assert "No module named" not in host("ctrlhost", "--version").stderr
    # 25 MB are used, with the compiled files of Python.
    assert size(site) - before <= 55_000_000


def size(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_sandbox_alone_serves_and_knows_no_host(wheels: Path, tmp_path: Path) -> None:
    sandbox = Environment(tmp_path, wheels, "ctrlhost-sandbox", "pytest")
    assert "No module named 'ctrlhost'" in sandbox("python", "-c", "import ctrlhost").stderr
    done = sandbox("ctrlhost-sandbox", "--", "sh", "-c", "test -s $KUBECONFIG && exit 5")
    assert done.returncode == 5, done.stderr
    (tmp_path / "test_it.py").write_text("def test_it(sandbox, kubeconfig):\n    assert kubeconfig.exists()\n")
    tested = sandbox("pytest", "-q", "test_it.py")
    assert "1 passed" in tested.stdout, tested.stdout


def test_both_work_together_within_a_minor_version(wheels: Path, tmp_path: Path) -> None:
    both = Environment(tmp_path, wheels, "ctrlhost[sandbox]")
    (tmp_path / "sample.py").write_text(PLUGIN)
    program = (
        "import signal, subprocess, sys\n"
        "process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
        "print(process.stdout.readline().startswith('kubeconfig: '))\n"
        "process.send_signal(signal.SIGTERM)\n"
        "sys.exit(process.wait(60))\n"
    )
    done = both("python", "-c", program, "bin/ctrlhost", "run", "sample.py", "--sandbox", "--listen=")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    both.install("--force-reinstall", "--no-deps", str(of_another_version(wheels, tmp_path, "0.2.0")))
    done = both("ctrlhost", "run", "sample.py", "--sandbox")
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["error: ctrlhost-sandbox 0.2.0 does not fit ctrlhost 0.1.0", "", HINT]


def of_another_version(wheels: Path, folder: Path, version: str) -> Path:
    """Return a wheel of the sandbox that says it has another version."""
    (source,) = wheels.glob("ctrlhost_sandbox-*.whl")
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(source) as wheel:
        wheel.extractall(unpacked)
    init = unpacked / "ctrlhost_sandbox/__init__.py"
    init.write_text(f"{init.read_text()}\n__version__ = {version!r}\n")
    (info,) = unpacked.glob("*.dist-info")
    metadata = (info / "METADATA").read_text().replace("Version: 0.1.0", f"Version: {version}")
    (info / "METADATA").write_text(metadata)
    (info / "RECORD").write_text("")
    info.rename(unpacked / f"ctrlhost_sandbox-{version}.dist-info")
    archive = shutil.make_archive(str(folder / "archive"), "zip", unpacked)
    return Path(archive).rename(folder / f"ctrlhost_sandbox-{version}-py3-none-any.whl")
