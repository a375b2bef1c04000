"""`make release-check`: what it finds wrong with a tree and with a wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from release.check import check_readme, check_wheel, needed_glibc

behaviour = pytest.mark.behaviour
ROOT = Path(__file__).parents[2]
#: What the check reads.
FILES = (
    "CHANGELOG.md",
    "Cargo.toml",
    "image/bases.lock",
    "plugins/*/pyproject.toml",
    "pyproject.toml",
    "release/description.md",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the sources with what a release adds: addresses and digests."""
    for pattern in FILES:
        for file in ROOT.glob(pattern):
            copied = tmp_path / file.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copied)
    assert add_addresses(tmp_path, "https://example.com/owner/ctrlhost/").returncode == 0
    bases = tmp_path / "image" / "bases.lock"
    digest = "@sha256:" + "0" * 64
    edit(
        bases, lambda text: "".join(f"{line.partition('@')[0]}{digest}\n" for line in text.splitlines() if "=" in line)
    )
    return tmp_path


def edit(file: Path, change: Callable[[str], str]) -> None:
    file.write_text(change(file.read_text()))


def add_addresses(tree: Path, address: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "release" / "addresses.py", address, "--tree", tree]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def check(tree: Path) -> tuple[int, list[str]]:
    command = [sys.executable, ROOT / "release" / "check.py", "--tree", tree]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@behaviour("operations/OP164")
def test_a_good_tree_passes(tree: Path) -> None:
    edit(tree / "release/description.md", lambda text: text + "[pages](https://example.com/docs), [below](#below)\n")
    assert check(tree) == (0, [])


def test_a_release_writes_the_addresses_of_the_project(tree: Path) -> None:
    assert tomllib.loads((tree / "pyproject.toml").read_text())["project"]["urls"] == {
        "Changelog": "https://example.com/owner/ctrlhost/blob/v0.1.0/CHANGELOG.md",
        "Documentation": "https://example.com/owner/ctrlhost/blob/v0.1.0/docs/index.md",
        "Issues": "https://example.com/owner/ctrlhost/issues",
        "Source": "https://example.com/owner/ctrlhost",
    }
    again = add_addresses(tree, "https://example.com/owner/ctrlhost")
    assert (again.returncode, "has [project.urls] already" in again.stderr) == (2, True)


@pytest.mark.parametrize("address", ["ctrlhost", "http://example.com/owner/ctrlhost", 'https://example.com/a"b'])
def test_an_address_that_is_none_is_refused(tree: Path, address: str) -> None:
    refused = add_addresses(tree, address)
    assert (refused.returncode, f"`{address}` is not an address" in refused.stderr) == (2, True)


def test_the_tree_has_no_addresses_and_no_relative_link_on_its_page() -> None:
    assert "urls" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert list(check_readme(ROOT)) == []


@behaviour("operations/OP164")
@pytest.mark.parametrize(
    ("file", "change", "line"),
    [
        (
            "Cargo.toml",
            lambda text: text.replace('version = "0.1.0"', 'version = "0.1.1"', 1),
            "CHANGELOG.md: the newest version is 0.1.0, that of Cargo.toml is 0.1.1",
        ),
        (
            "plugins/naming/pyproject.toml",
            lambda text: text.replace('version = "0.1.0"', 'version = "0.2.0"'),
            "plugins/naming/pyproject.toml: the version is 0.2.0, that of Cargo.toml is 0.1.0",
        ),
        (
            "release/description.md",
            lambda text: text + "[sandbox](docs/sandbox.md)\n",
            "release/description.md: the link `docs/sandbox.md` is relative",
        ),
        (
            "pyproject.toml",
            lambda text: text.replace("\nSource =", "\nSources ="),
            "pyproject.toml: [project.urls] has no `Source`",
        ),
        (
            "image/bases.lock",
            lambda text: "RUST_IMAGE=rust:1.90-slim-bookworm\n" + text.partition("\n")[2],
            "image/bases.lock: `RUST_IMAGE=rust:1.90-slim-bookworm` has no digest",
        ),
    ],
    ids=["version", "plugin-version", "link", "url", "digest"],
)
def test_each_mistake_is_one_line(tree: Path, file: str, change: Callable[[str], str], line: str) -> None:
    edit(tree / file, change)
    code, lines = check(tree)
    assert code == 1
    assert line in lines
    # A wrong version of the core differs from that of each plugin, too.
    assert len(lines) == (6 if file == "Cargo.toml" else 1)


def wheel(folder: Path, name: str = "ctrlhost-0.1.0-cp311-abi3-manylinux2014_x86_64.whl", **files: bytes) -> Path:
    content = {
        "ctrlhost/__init__.py": b"",
        "ctrlhost/py.typed": b"",
        "ctrlhost/_core.abi3.so": b"\x7fELF\0GLIBC_2.2.5\0GLIBC_2.17\0",
        "ctrlhost-0.1.0.dist-info/licenses/LICENSE": b"",
    }
    archive_path = folder / name
    with zipfile.ZipFile(archive_path, "w") as archive:
        for path, data in (content | files).items():
            archive.writestr(path, data)
    return archive_path


@behaviour("operations/OP165")
def test_a_wheel_that_needs_a_newer_c_library_is_refused(tmp_path: Path) -> None:
    assert list(check_wheel(wheel(tmp_path), "0.1.0", "_core")) == []
    newer = b"\0GLIBC_2.9\0GLIBC_2.28\0"
    assert needed_glibc(newer) == (2, 28)
    archive = wheel(tmp_path, **{"ctrlhost/_core.abi3.so": newer})
    assert list(check_wheel(archive, "0.1.0", "_core")) == [
        f"{archive.name}: `ctrlhost/_core.abi3.so` needs GLIBC 2.28"
    ]


@behaviour("operations/OP164")
def test_a_wheel_with_other_content_is_refused(tmp_path: Path) -> None:
    archive = wheel(tmp_path, "ctrlhost-0.1.0-cp311-abi3-linux_x86_64.whl", **{"tests/test_a.py": b""})
    assert list(check_wheel(archive, "0.1.1", "_core")) == [
        f"{archive.name}: the version of Cargo.toml is 0.1.1",
        f"{archive.name}: the platform is not manylinux2014_x86_64",
        f"{archive.name}: `tests/test_a.py` does not belong there",
    ]
