"""Folders with `ctrlhost` and `kubectl`, as the PATH of commands in a shell."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.control_plane import BINARY

ROOT = Path(__file__).parents[2]


def install_programs(folder: Path) -> Path:
    """Write the programs of this tree, and `kubectl` and `helm` of the real control plane, into a folder; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("ctrlhost", "ctrlhost_sandbox"):
        program = f'PYTHONPATH="{ROOT}:$PYTHONPATH" exec "{sys.executable}" -m {name}'
        _install(folder / name.replace("_", "-"), program)
    _install(folder / "kubectl", f'exec "{BINARY}" kubectl')
    _install(folder / "helm", f'exec "{BINARY.with_name("helm")}"')
    return folder


def install_kubectl_for_toy_pods(folder: Path) -> None:
    """Replace `kubectl` by one whose `exec`, `logs` and `port-forward` know the pods of a `HostKubelet`."""
    _install(folder / "kubectl", f'PYTHONPATH="{ROOT}" exec "{sys.executable}" -m tests.support.toy_pods_kubectl')


def _install(program: Path, command: str) -> None:
    program.write_text(f'#!/bin/sh\n{command} "$@"\n')
    program.chmod(0o755)
