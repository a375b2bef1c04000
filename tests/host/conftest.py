"""Plugins as distributions in a folder of their own, so that the host finds them as it finds installed ones."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.host_process import HostProcess


class Distributions:
    """A folder of installed distributions, for this process and for those that are started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, source: str, *, distribution: str = "", module: str = "", version: str = "1.0") -> None:
        """Install the plugin `name` whose module has this source."""
        distribution = distribution or f"test-{name}"
        module = module or distribution.replace("-", "_")
        (self.folder / f"{module}.py").write_text(textwrap.dedent(source))
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[ctrlhost]\n{name} = {module}\n")

    def environment(self, **more: str) -> dict[str, str]:
        """Give the environment of a process that has these distributions."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CTRLHOST_", "KUBECONFIG"))}
        return kept | {"PYTHONPATH": str(self.folder), "HOME": str(self.folder)} | more


class StartHost(Protocol):
    def __call__(self, *arguments: str, plugins: str = "", **environment: str) -> HostProcess: ...


@pytest.fixture
def start_host(distributions: Distributions) -> Iterator[StartHost]:
    """Start `ctrlhost run` with these plugins, on a free port; it is gone at the end of the test."""
    with ExitStack() as running:

        def start(*arguments: str, plugins: str = "", **environment: str) -> HostProcess:
            named = [f"--plugins={plugins}"] if plugins else []
            complete = distributions.environment(**environment)
            return running.enter_context(HostProcess(*named, *arguments, environment=complete))

        yield start


@pytest.fixture
def distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distributions:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return Distributions(folder)


@pytest.fixture
def ctrlhost(distributions: Distributions) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line as a process of its own, to its end."""

    def run(*arguments: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ctrlhost", *arguments],
            env=distributions.environment(**environment),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
