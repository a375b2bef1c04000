"""The scripts of the image in roots of Debian packages, and a host in the result; for `make release-check`.

Needs root for the mounts, and Rust. The first run compiles everything, which takes minutes; with a folder of wheels in
CTRLHOST_WHEELS none is built.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.release.debian_root import debian_root, in_root
from tests.support.other_user import needs_root

behaviour = pytest.mark.behaviour
pytestmark = [needs_root, pytest.mark.timeout(3600)]
ROOT = Path(__file__).parents[2]
PACKAGES = ("bitcoin", "hostname", "ingress-status", "naming")
#: Files of the source that the image copies, as in .dockerignore.
SOURCE = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"]
MEGABYTE = 1_000_000
PIP = {name: value for name, value in os.environ.items() if name.lower() in ("http_proxy", "https_proxy", "no_proxy")}
PIP["PIP_CERT"] = "/etc/ssl/certs/ca-certificates.crt"


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheels in a root with Python, a linker, and the Rust of this machine, unless they exist."""
    if built := os.environ.get("CTRLHOST_WHEELS"):
        return Path(built)
    root = debian_root(tmp_path_factory.mktemp("builder"), "python3-venv", "dash", "coreutils", "gcc", "libc6-dev")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in SOURCE:
        if (ROOT / name).is_dir():
            # As .dockerignore leaves it out.
            left = ("*.so", "__pycache__", "target", *(["tests"] if name == "plugins" else []))
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns(*left))
        else:
            shutil.copy(ROOT / name, source / name)
    rust = Path(
        subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    )
    target = ROOT / ".cache" / "image-target"
    target.mkdir(parents=True, exist_ok=True)
    cargo = Path(os.environ.get("CARGO_HOME", "~/.cargo")).expanduser()
    environment = {"PATH": "/rust/bin:/usr/bin:/bin", "CARGO_HOME": "/cargo", "CARGO_TARGET_DIR": "/target", **PIP}
    binds = {"/source": source, "/wheels": out, "/rust": rust, "/cargo": cargo, "/target": target}
    script = ["/bin/sh", "/source/image/wheels.sh", "/source", "/wheels"]
    run(in_root(root, *script, binds=binds, environment=environment))
    return out


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheels in a root with Python, and return /opt/ctrlhost."""
    root = debian_root(tmp_path_factory.mktemp("installer"), "python3-venv", "dash", "coreutils")
    binds = {"/image": ROOT / "image", "/requirements": ROOT / "requirements", "/wheels": wheels}
    script = ["/bin/sh", "/image/install.sh", "/requirements/runtime.txt", "/wheels", "/opt/ctrlhost"]
    run(in_root(root, *script, binds=binds, environment=PIP))
    return root / "opt" / "ctrlhost"


@pytest.fixture(scope="module")
def image(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root with Python and what the image adds, without a shell."""
    root = debian_root(tmp_path_factory.mktemp("image"), "python3-minimal", "libpython3.11-stdlib")
    shutil.copytree(installed, root / "opt" / "ctrlhost", symlinks=True)
    assert not [path for name in ("sh", "bash", "dash") for path in (root / "usr/bin").glob(name)]
    return root


@behaviour("operations/OP161")
@behaviour("oncall/OC29")
def test_all_plugins_run_from_a_root_that_nobody_can_write_to(image: Path, tmp_path: Path) -> None:
    trace = tmp_path / "execs"
    host = ["/opt/ctrlhost/bin/ctrlhost", "run", f"--plugins={','.join(PACKAGES)}", "--listen=127.0.0.1:8484"]
    host += ["--install-crds", "--kubeconfig=/etc/ctrlhost/kubeconfig", "--set=hostname.rest-address=127.0.0.1"]
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "XDG_RUNTIME_DIR": "/run/ctrlhost"}
    (image / "etc" / "ctrlhost").mkdir(exist_ok=True)
    command = in_root(
        image, *host, binds={"/etc/ctrlhost": shared}, environment=environment, user=65532, writable=False
    )
    if shutil.which("strace"):
        command = ["strace", "-f", "-qq", "-e", "trace=execve", "-o", str(trace), *command]
    before = {path: path.lstat().st_mtime_ns for path in image.rglob("*") if "proc" not in path.parts}

    # A network of its own, in which only the API server is.
    driver = [sys.executable, "-m", "tests.release.host_in_a_root", str(shared), *command]
    network = ["unshare", "--net", "sh", "-euc", 'ip link set lo up; exec "$@"', "sh", *driver]
    done = subprocess.run(network, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (seen["ready"], seen["live"]) == (200, 200)
    for plugin in PACKAGES:
        assert f"plugin/{plugin} ok: running" in seen["verbose"]
    assert seen["users"] == ["65532"] * 4
    assert seen["code"] == 0
    assert {path: path.lstat().st_mtime_ns for path in image.rglob("*") if "proc" not in path.parts} == before
    if trace.exists():
        # Programs that ran; what prepares the root comes before the host.
        ran = re.findall(r'execve\("([^"]+)".* = 0$', trace.read_text(), re.MULTILINE)
        assert ran.index(host[0]) == len(ran) - 1


@behaviour("operations/OP162")
@behaviour("oncall/OC29")
def test_what_is_added_is_small_and_has_no_tools(installed: Path, wheels: Path) -> None:
    added = size(installed)
    assert added <= 70 * MEGABYTE, f"{added / MEGABYTE:.1f} MB"
    names = {path.name for path in installed.rglob("*")}
    for absent in ("kubernetes", "fastjsonschema", "pip", "setuptools", "maturin", "hatchling", "cargo", "rustc"):
        assert absent not in names
    assert not [path for path in (installed / "bin").iterdir() if "pip" in path.name or "activate" in path.name.lower()]
    assert len(list(wheels.glob("*.whl"))) == 1 + len(PACKAGES)
    print(f"the image adds {added / MEGABYTE:.1f} MB to its base")


@behaviour("oncall/OC29")
def test_the_bill_of_materials_names_what_is_installed(installed: Path) -> None:
    bill = json.loads((installed / "sbom.cdx.json").read_text())
    (packages,) = installed.glob("lib/python3.*/site-packages")
    found = {path.name.removesuffix(".dist-info") for path in packages.glob("*.dist-info")}
    named = {f"{entry['name'].replace('-', '_')}-{entry['version']}" for entry in bill["components"]}
    assert named == {re.sub(r"[-_.]+(?=.*-)", "_", name).lower() for name in found}
    locked = re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)
    own = {"ctrlhost", *(f"ctrlhost-{name}" for name in PACKAGES)}
    expected = {re.sub(r"[-_.]+", "-", name).lower() for name in locked}
    assert {entry["name"] for entry in bill["components"]} <= expected | own
    assert own <= {entry["name"] for entry in bill["components"]}
    assert bill["metadata"]["component"]["name"] == "ctrlhost"
