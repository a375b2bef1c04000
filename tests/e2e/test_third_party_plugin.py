"""A third-party plugin, installed with pip beside the host and its plugins."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost import Client, NotFound, TransportError
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ["plugins/hostname", "plugins/naming", "examples/sample-controller"]

FOO = {
    "apiVersion": "samplecontroller.example.com/v1alpha1",
    "kind": "Foo",
    "metadata": {"name": "example-foo", "namespace": "default"},
    "spec": {"deploymentName": "example-foo", "replicas": 2},
}


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build_wheels(into: Path) -> list[Path]:
    """Build the published wheels: host and sandbox, in the build profile of the tests, and the three plugins."""
    maturin = Path(sys.executable).with_name("maturin")
    profile = os.environ.get("PROFILE", "release")
    for folder in (ROOT, ROOT / "sandbox"):
        run(maturin, "build", "--quiet", "--locked", "--profile", profile, "--out", into, cwd=folder)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", into, *PROJECTS)
    return sorted(into.glob("*.whl"))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the five wheels."""
    built = build_wheels(tmp_path_factory.mktemp("wheels"))
    assert len(built) == 5
    return built


@pytest.fixture
def environment(wheels: list[Path], tmp_path: Path) -> Path:
    """Return a new environment with only the five wheels and their locked dependencies."""
    home = tmp_path / "environment"
    run(sys.executable, "-m", "venv", home)
    python = home / "bin" / "python"
    locked = tmp_path / "constraints.txt"
    lines = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8").splitlines()
    locked.write_text("\n".join(line.rstrip(" \\") for line in lines if line[:1].isalpha()), encoding="utf-8")
    compiled = [wheel for wheel in wheels if wheel.name.startswith(("ctrlhost-0", "ctrlhost_sandbox-0"))]
    # One of each for every Python from 3.11 on; the host that is installed from it imports it.
    assert ["-cp311-abi3-" in wheel.name for wheel in compiled] == [True, True]
    # uv uses its cache, which is complete once the development environment exists.
    if shutil.which("uv"):
        run("uv", "pip", "install", "-q", "--python", python, "-c", locked, *compiled)
    else:
        run(python, "-m", "pip", "install", "-q", "-c", locked, *compiled)
    run(python, "-m", "pip", "install", "-q", "--no-index", "--force-reinstall", "--no-deps", *wheels)
    run(python, "-m", "pip", "check")
    return home


@pytest.fixture
def sandbox_run(environment: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run the host with all three plugins on its sandbox, and return the process and its kubeconfig."""
    command = [environment / "bin" / "ctrlhost", "run", "--plugins", "hostname,naming,sample", "--sandbox"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CTRLHOST", "KUBE"))}
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [str(part) for part in (*command, "--listen", "127.0.0.1:0")],
            cwd=tmp_path,
            env=clean,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout
    try:
        line = next((line for line in process.stdout if line.startswith("kubeconfig: ")), "")
        assert line, (tmp_path / "log").read_text(encoding="utf-8")
        yield process, Path(line.removeprefix("kubeconfig: ").strip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.behaviour("scale/SC135")
def test_a_plugin_installed_with_pip_works_beside_ours(
    sandbox_run: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    process, kubeconfig = sandbox_run
    client = Client.load(kubeconfig)

    def log() -> str:
        text: str = (tmp_path / "log").read_text(encoding="utf-8")
        return text

    def created() -> bool:
        # The server serves the kind once its CRD is established.
        assert process.poll() is None, log()
        try:
            client.create(FOO)
        except (NotFound, TransportError):
            return False
        return True

    def find_deployment() -> dict[str, Any] | None:
        # The plugin creates the Deployment once it has seen the Foo.
        assert process.poll() is None, log()
        return client.find("apps/v1", "Deployment", "example-foo", "default")

    eventually(created, 60, "the kind Foo")
    deployment = eventually(find_deployment, 60, "the Deployment of the Foo")
    client.close()

    assert deployment["spec"]["replicas"] == 2
    assert deployment["metadata"]["ownerReferences"][0]["kind"] == "Foo"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, log()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.behaviour("scale/SC27")
def test_the_wheel_is_small_and_brings_no_other_tls(wheels: list[Path], tmp_path: Path) -> None:
    host = next(wheel for wheel in wheels if wheel.name.startswith("ctrlhost-0"))
    with zipfile.ZipFile(host) as archive:
        (name,) = (member for member in archive.namelist() if member.endswith(".so"))
        core = Path(archive.extract(name, tmp_path))
    needed = {line.split()[0] for line in run("ldd", core).splitlines()}
    libc = ("linux-vdso.", "/lib", "libc.", "libgcc_s.", "libm.", "libpthread.", "libdl.", "librt.")
    assert {library for library in needed if not library.startswith(libc)} == set()
    if os.environ.get("PROFILE", "release") == "release":
        assert core.stat().st_size <= 5_800_000
        # The core takes 2.8 MB of it, the Python code 1.1 MB.
        assert host.stat().st_size <= 4_000_000


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_wheel_has_each_file_of_the_package_and_no_invented_address(wheels: list[Path]) -> None:
    host = next(wheel for wheel in wheels if wheel.name.startswith("ctrlhost-0"))
    with zipfile.ZipFile(host) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("/METADATA"))
    assert set(run("git", "ls-files", "ctrlhost").split()) <= set(names)
    assert "Project-URL" not in metadata
    assert metadata.rstrip().endswith((ROOT / "release/description.md").read_text(encoding="utf-8").rstrip())


def test_the_sample_imports_only_public_names() -> None:
    import ast

    import ctrlhost

    for path in (ROOT / "examples/sample-controller/src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ctrlhost":
                assert node.module == "ctrlhost"
                assert {name.name for name in node.names} <= set(ctrlhost.__all__)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ctrlhost":
                assert node.attr in ctrlhost.__all__
