"""A host that can be acted on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ctrlhost import Client
from tests.host.conftest import Distributions
from tests.support.admin import ACTING, Acting
from tests.support.host_process import HostProcess


@pytest.fixture
def runtime() -> Iterator[Path]:
    with TemporaryDirectory(prefix="admin-") as directory:
        yield Path(directory)


@pytest.fixture(scope="package")
def folder() -> Iterator[Path]:
    # Paths of pytest can be longer than the address of a socket.
    with TemporaryDirectory(prefix="admin-") as directory:
        yield Path(directory)


@pytest.fixture(scope="package")
def shared(folder: Path) -> Iterator[Acting]:
    """One host for all tests of this folder; each test uses names of its own."""
    site = folder / "site"
    site.mkdir()
    installed = Distributions(site)
    for name in ("inside", "apart"):
        installed.add(name, ACTING)
    config = folder / "settings.toml"
    names = [f"{plugin}/{name}" for plugin in ("inside", "apart") for name in "abc"]
    # The tests count lines.
    config.write_text(
        "[supervision]\nlog_lines = 0\n"
        + "".join(f'[controllers."{name}"]\nbase_delay = "10m"\nmax_delay = "10m"\n' for name in names)
    )
    environment = installed.environment(XDG_RUNTIME_DIR=str(folder))
    arguments = ["--sandbox", "--admin", "--plugins=inside,apart", "--isolate=apart", f"--config={config}"]
    with HostProcess(*arguments, environment=environment) as host:
        for name in ("inside", "apart"):
            host.line(f"plugin {name} running")
        yield Acting(host, Client.load(host.kubeconfig), folder)
