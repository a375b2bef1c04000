"""Informers and queues without the host, as docs/how-to/library.md shows them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]


def test_the_example_prints_the_cached_objects(control_plane: ControlPlane, namespace: str) -> None:
    for name in ("ann", "bob"):
        control_plane.client.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace},
                "data": {"name": name.title()},
            }
        )
    # Here no controller runs that adds a ConfigMap to each namespace.
    done = subprocess.run(
        [sys.executable, "-m", "examples.library", namespace, "2"],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["ann {'name': 'Ann'}", "bob {'name': 'Bob'}"]


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs" / "how-to" / "library.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    assert textwrap.indent(example, "    ") in (ROOT / "examples" / "library.py").read_text(encoding="utf-8")
