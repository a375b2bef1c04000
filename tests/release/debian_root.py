"""Folders with the files of Debian packages, as roots of programs that must not see this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CACHE = ROOT / ".cache" / "debian"
SUITE = "bookworm"
"""The oldest release of Debian that is supported."""
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_DEVICES = ("null", "urandom", "random")
#: Since Debian 12 these are links into /usr.
_LINKS = ("bin", "sbin", "lib", "lib64")


def _mirror() -> str:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("no apt-get and dpkg-deb to fetch Debian packages with")
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    mirror = os.environ.get("DEBIAN_MIRROR") or next(
        (address for address in listed if address.rstrip("/").endswith("/debian")), ""
    )
    if not mirror:
        pytest.skip("the machine's package sources have no mirror of Debian: set DEBIAN_MIRROR")
    return mirror


def _packages(names: Sequence[str]) -> list[Path]:
    """Return the archives of packages and of all that they depend on, downloaded once."""
    folder = _CACHE / "-".join(sorted(names))[:100]
    archives = folder / "archives"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {_mirror()} {SUITE} main\n")
        (folder / "apt.conf").write_text(
            f'Dir::Etc::sourcelist "{folder}/sources.list";\nDir::Etc::sourceparts "-";\n'
            f'Dir::Etc::preferencesparts "-";\nDir::State::lists "{folder}/lists";\n'
            f'Dir::State::status "{folder}/status";\nDir::Cache "{folder}";\n'
            'APT::Install-Recommends "0";\nAPT::Sandbox::User "root";\nAcquire::Languages "none";\n'
        )
        environment = os.environ | {"APT_CONFIG": str(folder / "apt.conf")}
        for command in (["update"], ["install", "--yes", "--download-only", *names]):
            subprocess.run(["apt-get", "-q", *command], env=environment, check=True, capture_output=True, timeout=300)
        (folder / "complete").touch()
    return sorted(archives.glob("*.deb"))


def debian_root(folder: Path, *packages: str) -> Path:
    """Unpack packages and what they depend on into an empty folder; their scripts do not run."""
    for name in _LINKS:
        (folder / "usr" / name).mkdir(parents=True)
        (folder / name).symlink_to(f"usr/{name}")
    for archive in _packages(packages):
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", folder], input=content, check=True)
    for name in ("dev", "proc", "tmp", "run", "etc/ssl/certs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "tmp").chmod(0o1777)
    if (folder / "usr/bin/gcc").exists():
        (folder / "usr/bin/cc").symlink_to("gcc")
    for device in _DEVICES:
        (folder / "dev" / device).touch()
    for file in (Path("/etc/resolv.conf"), Path("/etc/hosts"), _CERTIFICATES):
        if file.exists():
            shutil.copy(file, folder / file.relative_to("/"))
    return folder


def in_root(
    folder: Path,
    *command: str,
    binds: Mapping[str, Path] | None = None,
    environment: Mapping[str, str] | None = None,
    user: int = 0,
    writable: bool = True,
) -> list[str]:
    """Return the command that runs a command in the root, with devices, and folders of this machine at some paths.

    A root that is not `writable` has a folder for all users at /run/ctrlhost.
    """
    (folder / "run" / "ctrlhost").mkdir(exist_ok=True)
    lines = [] if writable else [f"mount --bind {folder} {folder}", f"mount -o remount,bind,ro {folder}"]
    lines += [f"mount --bind /dev/{device} {folder}/dev/{device}" for device in _DEVICES]
    lines.append(f"mount --rbind /proc {folder}/proc")
    lines += [] if writable else [f"mount -t tmpfs -o mode=0777 tmpfs {folder}/run/ctrlhost"]
    for path, source in (binds or {}).items():
        target = folder / path.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        lines.append(f"mount --rbind {source} {target}")
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"} | dict(environment or {})
    settings = " ".join(f"{name}={value}" for name, value in variables.items())
    lines.append(f'exec env -i {settings} {shutil.which("chroot")} --userspec={user}:{user} {folder} "$@"')
    return ["unshare", "--mount", "sh", "-euc", "\n".join(lines), "sh", *command]
