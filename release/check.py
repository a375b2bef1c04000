"""Check a tree, and what was built from it, before a release: `python release/check.py [--tree DIR] [--dist DIR]`.

Prints a line for each mistake; exit code 1 if there are any. Without `--dist` only the sources are checked.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The newest version of the C library that a manylinux2014 wheel may need.
GLIBC = (2, 17)
PLATFORM = "manylinux2014_x86_64"
URLS = ("Changelog", "Documentation", "Issues", "Source")
_DIGEST = re.compile(r"[A-Z]+_IMAGE=\S+:\S+@sha256:[0-9a-f]{64}")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_TESTS = re.compile(r"(^|/)(tests?|conftest\.py|__pycache__)(/|$)")
#: The packages that a release publishes, each with its compiled library.
PACKAGES = {"ctrlhost": "_core", "ctrlhost_sandbox": "_native"}


def read(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def version_of(tree: Path) -> str:
    """Return the version of the core, which is that of the wheel."""
    return str(tomllib.loads(read(tree / "Cargo.toml"))["workspace"]["package"]["version"])


def check_versions(tree: Path) -> Iterator[str]:
    """Compare the versions of core, plugins and changelog."""
    version = version_of(tree)
    newest = re.search(r"^## (\S+)", read(tree / "CHANGELOG.md"), re.MULTILINE)
    if newest is None or newest[1] != version:
        latest = newest[1] if newest else "missing"
        yield f"CHANGELOG.md: the newest version is {latest}, that of Cargo.toml is {version}"
    for file in sorted(tree.glob("plugins/*/pyproject.toml")):
        own = tomllib.loads(read(file))["project"]["version"]
        if own != version:
            yield f"{file.relative_to(tree)}: the version is {own}, that of Cargo.toml is {version}"


def check_readme(tree: Path) -> Iterator[str]:
    """Look for links that lead nowhere on the page of a package index."""
    name = tomllib.loads(read(tree / "pyproject.toml"))["project"]["readme"]
    for link in dict.fromkeys(_LINK.findall(read(tree / name))):
        if not link.startswith(("https://", "#")):
            yield f"{name}: the link `{link}` is relative"


def check_urls(tree: Path) -> Iterator[str]:
    """Look for the addresses of the project."""
    urls = tomllib.loads(read(tree / "pyproject.toml"))["project"].get("urls", {})
    for name in URLS:
        if not str(urls.get(name, "")).startswith("https://"):
            yield f"pyproject.toml: [project.urls] has no `{name}`"


def check_bases(tree: Path) -> Iterator[str]:
    """Look for base images without a digest."""
    for line in read(tree / "image" / "bases.lock").splitlines():
        if line and not line.startswith("#") and not _DIGEST.fullmatch(line):
            yield f"image/bases.lock: `{line}` has no digest"


def check_sources(tree: Path) -> Iterator[str]:
    """Return the mistakes in the sources."""
    for check in (check_versions, check_readme, check_urls, check_bases):
        yield from check(tree)


def needed_glibc(library: bytes) -> tuple[int, ...]:
    """Return the newest version of the C library whose symbols an ELF file needs."""
    versions = {tuple(map(int, version.split(b"."))) for version in re.findall(rb"GLIBC_(\d+(?:\.\d+)+)\0", library)}
    return max(versions, default=(0,))


def check_wheel(wheel: Path, version: str, library: str) -> Iterator[str]:
    """Check the name and the content of the wheel of a package with a compiled `library`."""
    package = wheel.name.split("-")[0]
    if wheel.name.split("-")[1] != version:
        yield f"{wheel.name}: the version of Cargo.toml is {version}"
    if PLATFORM not in wheel.name:
        yield f"{wheel.name}: the platform is not {PLATFORM}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for needed in (f"{package}/__init__.py", f"{package}/py.typed", f"{package}/{library}.abi3.so"):
            if needed not in names:
                yield f"{wheel.name}: `{needed}` is missing"
        if not any(name.endswith("/licenses/LICENSE") for name in names):
            yield f"{wheel.name}: the licence is missing"
        for name in names:
            if _TESTS.search(name.removeprefix("ctrlhost/testing/")) or not name.startswith(package):
                yield f"{wheel.name}: `{name}` does not belong there"
            if name.endswith(".so") and (newest := needed_glibc(archive.read(name))) > GLIBC:
                yield f"{wheel.name}: `{name}` needs GLIBC {'.'.join(map(str, newest))}"


def run(*command: str | Path, cwd: Path | None = None) -> str | None:
    """Run a command, and return the end of its output if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else " ".join((done.stdout + done.stderr).split())[-500:]


def check_installation(wheels: Sequence[Path], tree: Path) -> Iterator[str]:
    """Install the wheels in an empty environment, print the version, and reconcile on the sandbox."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin" / "python"
        steps = (
            (sys.executable, "-m", "venv", folder),
            (python, "-m", "pip", "install", "--quiet", *wheels),
            (python.with_name("ctrlhost"), "version"),
            (python, tree / "release" / "reconcile_once.py"),
        )
        for step in steps:
            if failure := run(*step, cwd=Path(folder)):
                yield f"{wheels[0].name}: `{Path(str(step[0])).name} {' '.join(map(str, step[1:]))}` failed: {failure}"
                return


def check_sdist(sdist: Path) -> Iterator[str]:
    """Build a wheel from the source distribution."""
    with tempfile.TemporaryDirectory() as folder:
        command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, sdist)
        if failure := run(*command, cwd=Path(folder)):
            yield f"{sdist.name}: builds no wheel: {failure}"


def check_dist(dist: Path, tree: Path) -> Iterator[str]:
    """Return the mistakes in what was built."""
    version = version_of(tree)
    wheels, sdists = [], []
    for package, library in PACKAGES.items():
        built = sorted(dist.glob(f"{package}-*.whl")), sorted(dist.glob(f"{package}-*.tar.gz"))
        if [len(files) for files in built] != [1, 1]:
            yield f"{dist}: expected one wheel and one source distribution of {package}"
            return
        wheels += built[0]
        sdists += built[1]
        yield from check_wheel(wheels[-1], version, library)
    if failure := run(sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir())):
        yield f"twine: {failure}"
    yield from check_installation(wheels, tree)
    for sdist in sdists:
        yield from check_sdist(sdist)


def main() -> int:
    """Print the mistakes, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--dist", type=Path)
    options = parser.parse_args()
    # Commands run in folders of their own.
    tree = options.tree.resolve()
    mistakes = list(check_sources(tree))
    if options.dist:
        mistakes += check_dist(options.dist.resolve(), tree)
    for mistake in mistakes:
        print(mistake)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
