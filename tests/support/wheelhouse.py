"""Wheels of what this environment has installed, so that a new environment needs no network.

The wheels of ctrlhost and of its sandbox are put together from this tree and its compiled modules, without a build.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import subprocess
import sysconfig
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
HOST = "ctrlhost"
#: The folders of the distributions of this tree that have compiled parts.
FOLDERS = {HOST: ROOT / "ctrlhost", "ctrlhost-sandbox": ROOT / "sandbox/src/ctrlhost_sandbox"}


def wheelhouse(into: Path, roots: Iterable[str]) -> Path:
    """Write wheels of `roots` and of all that they require into a folder, and return it."""
    into.mkdir(parents=True, exist_ok=True)
    for name, installed in required(roots).items():
        _write(into, installed, _in_tree(name) if name in FOLDERS else _installed(installed))
    return into


def required(roots: Iterable[str], without: Collection[str] = ()) -> dict[str, Distribution]:
    """Return the distributions of `roots` and of all that they require, by canonical name."""
    waiting: list[str] = list(roots)
    distributions: dict[str, Distribution] = {}
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in distributions and name not in without:
            distributions[name] = distribution(name)
            waiting += _requirements(distributions[name])
    return distributions


def run(*command: str | Path, cwd: Path, environment: Mapping[str, str]) -> str:
    """Run a command, and return its output."""
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def environment_with(wheels: Path, programs: Path | None = None) -> dict[str, str]:
    """Return the variables of a terminal where pip has only these wheels; those of this test run are left out.

    The terminal finds `programs` first.
    """
    dropped = ("PYTHON", "CTRLHOST", "KUBE", "PIP_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    # A file of this machine may name an index.
    own = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_NO_COMPILE": "1"}
    path = f"{programs}{os.pathsep}{kept['PATH']}" if programs is not None else kept["PATH"]
    return kept | own | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PATH": path}


def _requirements(of: Distribution) -> Iterator[str]:
    environment: dict[str, str] = {**default_environment(), "extra": ""}  # type: ignore[dict-item]  # all are texts
    for text in of.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield requirement.name


def _installed(package: Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an installed distribution as they are in a wheel."""
    scripts = Path(sysconfig.get_path("scripts")).resolve()
    data = f"{_stem(package)}.data/scripts"
    for file in package.files or ():
        path = Path(str(package.locate_file(file)))
        if path.suffix == ".pyc" or file.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
            continue
        if path.parent.resolve() == scripts:
            # Others are made from the entry points.
            if path.read_bytes()[:2] != b"#!":
                yield f"{data}/{path.name}", path.read_bytes()
        elif ".." not in file.parts:
            yield file.as_posix(), path.read_bytes()


def _in_tree(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a distribution in this tree, with the metadata of the installed one."""
    folder = FOLDERS[name]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder.parent).as_posix(), path.read_bytes()
    package = distribution(name)
    for name in ("METADATA", "WHEEL", "entry_points.txt"):
        yield f"{_stem(package)}.dist-info/{name}", (package.read_text(name) or "").encode()


def _stem(package: Distribution) -> str:
    return f"{canonicalize_name(package.name).replace('-', '_')}-{package.version}"


def _write(into: Path, package: Distribution, files: Iterable[tuple[str, bytes]]) -> None:
    # These wheels fit this machine, whatever the tag says.
    stem, record = _stem(package), []
    with zipfile.ZipFile(into / f"{stem}-py3-none-any.whl", "w") as wheel:
        for name, content in files:
            # pip looks for the folder that is named as the file is.
            folder, slash, rest = name.partition("/")
            if folder.endswith(".dist-info"):
                name = f"{stem}.dist-info{slash}{rest}"
            if name.endswith(".dist-info/WHEEL"):
                content = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | 0o755) << 16
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
        wheel.writestr(f"{stem}.dist-info/RECORD", "\n".join([*record, f"{stem}.dist-info/RECORD,,", ""]))
