"""kubectl on one server; each command is a step of the comparison."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.tests.clients.comparison import Comparison, Server
from tests.support.control_plane import BINARY

INSTALLED = shutil.which("kubectl")
BUILT = [str(BINARY), "kubectl"]
KUBECTLS = [pytest.param(BUILT, id="built")]
if INSTALLED is not None:
    KUBECTLS.append(pytest.param([INSTALLED], id="installed"))


class Shell:
    """Runs kubectl in the test's namespace with its own discovery cache."""

    def __init__(self, kubectl: list[str], server: Server, home: Path) -> None:
        self.kubectl, self.server, self.home = kubectl, server, home
        home.mkdir(parents=True, exist_ok=True)

    def environment(self, editor: str = "true") -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.server.kubeconfig), "HOME": str(self.home), "KUBE_EDITOR": editor}

    def run(self, *words: str, objects: list[dict[str, Any]] | None = None, editor: str = "true") -> tuple[int, str]:
        """Run one command without comparison; return the exit code and all output."""
        text = yaml.safe_dump_all(objects) if objects is not None else None
        done = subprocess.run(
            [*self.kubectl, "-n", self.server.namespace, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment(editor),
            cwd=self.home,
        )
        return done.returncode, done.stdout + done.stderr

    def __call__(
        self,
        *words: str,
        objects: list[dict[str, Any]] | None = None,
        editor: str = "true",
        code: int = 0,
        only: Callable[[str], bool] | None = None,
    ) -> str:
        """Run one command as a step; `only` selects the compared lines."""
        exit_code, text = self.run(*words, objects=objects, editor=editor)
        if exit_code != code:
            self.server.unexpected.append(f"{' '.join(words)}: exit {exit_code}: {text[-500:]}")
        if "--show-managed-fields" in words:
            self.server.note(" ".join(words), yaml.safe_load(text))
            return text
        kept = text if only is None else "\n".join(line for line in text.splitlines() if only(line))
        self.server.note(" ".join(words), kept)
        return text


#: Compares the output of commands on both servers: a name, and the commands.
Run = Callable[[str, Callable[[Shell], object]], None]


def compare_shells(
    compare: Comparison, kubectl: list[str], home: Path, name: str, steps: Callable[[Shell], object]
) -> None:
    """Run the commands of `steps` on both servers."""
    compare(f"kubectl {name}", lambda server: steps(Shell(kubectl, server, home / server.kind)))
