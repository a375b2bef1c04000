"""The package uses ctrlhost's public API alone, and ctrlhost knows of it by the name of an option only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.behaviour("kopf/KO23")
ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "plugins/kopf/src/ctrlhost_kopf"


def imported(source: Path) -> set[str]:
    """Return the modules that a source imports, also within functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("source", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_of_ctrlhost_only_what_is_public_is_imported(source: Path) -> None:
    ours = {name for name in imported(source) if name.partition(".")[0] == "ctrlhost"}
    assert ours <= {"ctrlhost"}
    assert not any(name.partition(".")[0] == "kopf" for name in imported(source))


def test_ctrlhost_does_not_import_it() -> None:
    sources = [*(ROOT / "ctrlhost").rglob("*.py"), *(ROOT / "sandbox/src").rglob("*.py")]
    assert [source for source in sources if any("kopf" in name for name in imported(source))] == []
    naming = {source.name for source in sources if "kopf" in source.read_text(encoding="utf-8")}
    # The hint of the option, and an example in a docstring.
    assert naming <= {"frameworks.py", "foreign.py"}
