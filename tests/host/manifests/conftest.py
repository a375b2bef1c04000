"""Printed manifests, and plugins to print them for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import fork_server
from tests.support.manifests import Manifest, Printed

IMAGE = ("--image=example.com/ctrlhost:1",)


@pytest.fixture
def printed(ctrlhost: Any) -> Printed:
    """Return a function that returns the manifests that some arguments print."""

    def run(*arguments: str, **environment: str) -> list[Manifest]:
        result = ctrlhost("manifests", *IMAGE, *arguments, **environment)
        assert result.returncode == 0, result.stderr
        return list(yaml.safe_load_all(result.stdout))

    return run


@pytest.fixture
def settings_file(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a settings file and returns the option for it."""

    def write(text: str) -> str:
        file = tmp_path / "ctrlhost.toml"
        file.write_text(text)
        return f"--config={file}"

    return write


@pytest.fixture
def bundled() -> Printed:
    """Return the same function as `printed`, with the bundled plugins in place of those of the tests."""

    def run(*arguments: str) -> list[Manifest]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("CTRLHOST_")}
        result = fork_server.run("manifests", *IMAGE, *arguments, env=kept)
        assert result.returncode == 0, result.stderr
        return list(yaml.safe_load_all(result.stdout))

    return run
