"""Plugins installed as distributions in a temporary folder, and the host process."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from ctrlhost.testing import HostUnderTest
from tests.support import fork_server
from tests.support.host_process import HostProcess


class Distributions:
    """A folder of installed distributions, for this process and its children."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        name: str,
        source: str,
        *,
        distribution: str = "",
        module: str = "",
        version: str = "1.0",
        attribute: str = "",
        group: str = "ctrlhost",
        requires: str = "",
    ) -> None:
        """Install the plugin `name` with this source, as the module or this attribute of it; it may require another."""
        distribution = distribution or f"test-{name}"
        module = module or distribution.replace("-", "_")
        (self.folder / f"{module}.py").write_text(textwrap.dedent(source))
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata + (f"Requires-Dist: {requires}\n" if requires else ""))
        target = f"{module}:{attribute}" if attribute else module
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a process with these distributions."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CTRLHOST_", "KUBECONFIG"))}
        return kept | {"PYTHONPATH": str(self.folder), "HOME": str(self.folder)} | more


class StartHost(Protocol):
    def __call__(self, *arguments: str, plugins: str = "", forked: bool = True, **environment: str) -> HostProcess: ...


@pytest.fixture
def ctrlhost_host(ctrlhost_host: Any) -> Callable[..., HostUnderTest]:
    """Start hosts whose plugins may fail, which many tests here are about; else that fails the test."""

    def start(*plugins: object, start: bool = True, **options: Any) -> HostUnderTest:
        host: HostUnderTest = ctrlhost_host(*plugins, start=False, **options)
        return host.start() if start else host

    return start


@pytest.fixture
def start_host(distributions: Distributions) -> Iterator[StartHost]:
    """Return a function that starts `ctrlhost run` with plugins; the processes end with the test."""
    with ExitStack() as running:

        def start(*arguments: str, plugins: str = "", forked: bool = True, **environment: str) -> HostProcess:
            named = [f"--plugins={plugins}"] if plugins else []
            complete = distributions.environment(**environment)
            return running.enter_context(HostProcess(*named, *arguments, environment=complete, forked=forked))

        yield start


@pytest.fixture
def distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distributions:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return Distributions(folder)


@pytest.fixture
def ctrlhost(distributions: Distributions) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the command line in its own process."""

    def run(*arguments: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        return fork_server.run(*arguments, env=distributions.environment(**environment), timeout=timeout)

    return run
