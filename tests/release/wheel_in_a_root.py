"""The wheel of a release in the oldest supported Debian; for `make release-check`, which names its folder.

Needs root for the mounts.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from release.check import GLIBC, needed_glibc, version_of
from tests.release.debian_root import debian_root, in_root
from tests.release.image_in_a_root import PIP, ROOT
from tests.support.other_user import needs_root

pytestmark = [needs_root, pytest.mark.timeout(900)]
INSTALL = """
python3 -m venv /venv
/venv/bin/pip install --quiet --require-hashes --no-deps --only-binary :all: --requirement /requirements/runtime.txt
/venv/bin/pip install --quiet --no-index --no-deps /dist/{wheel}
/venv/bin/ctrlhost version
"""


@pytest.mark.behaviour("operations/OP165")
def test_the_wheel_runs_in_the_oldest_supported_debian(tmp_path: Path) -> None:
    dist = ROOT / os.environ["CTRLHOST_RELEASE"]
    (wheel,) = dist.glob("ctrlhost-*manylinux2014_x86_64*.whl")
    root = debian_root(tmp_path / "root", "python3-venv", "dash", "coreutils")
    binds = {"/requirements": ROOT / "requirements", "/dist": dist}
    script = ["/bin/sh", "-euc", INSTALL.format(wheel=wheel.name)]
    done = subprocess.run(
        in_root(root, *script, binds=binds, environment=PIP), capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert version_of(ROOT) in done.stdout
    (library,) = (root / "venv").rglob("_core.abi3.so")
    assert needed_glibc(library.read_bytes()) <= GLIBC
