"""The modules of the bundled plugins: their rooms, and what they leave to the host."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = {
    "bitcoin": {"mesh", "rpc"},
    "hostname": set(),
    "ingress-status": set(),
    "naming": set(),
}
#: What a plugin must not have a copy of, by the import that it would need or the name that it would define.
IMPORTS = {"yaml": "ctrlhost.crds_from", "importlib.resources": "ctrlhost.crds_from"}
NAMES = {"parse_duration": "ctrlhost.duration", "is_owned_by": "ctrlhost.Owns", "owned_by": "ctrlhost.Owns"}


def modules(plugin: str) -> list[Path]:
    (package,) = (ROOT / "plugins" / plugin / "src").glob("ctrlhost_*")
    return sorted(package.rglob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({node.module, *(f"{node.module}.{name.name}" for name in node.names)})
    return names


@pytest.mark.behaviour("findings/FP14")
@pytest.mark.parametrize("plugin", ROOMS)
def test_a_plugin_has_the_rooms_of_the_house(plugin: str) -> None:
    rooms = {module.parent.name for module in modules(plugin)} - {f"ctrlhost_{plugin.replace('-', '_')}"}
    assert rooms == ROOMS[plugin]
    assert all(len(module.read_text(encoding="utf-8").splitlines()) <= 400 for module in modules(plugin))


@pytest.mark.behaviour("findings/FP14")
@pytest.mark.parametrize("plugin", ROOMS)
def test_a_plugin_has_no_copy_of_what_the_host_offers(plugin: str) -> None:
    copies = []
    for module in modules(plugin):
        text = module.read_text(encoding="utf-8")
        tree = ast.parse(text)
        copies += [f"{module.name} imports {name}; use {IMPORTS[name]}" for name in IMPORTS if name in imported(tree)]
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        copies += [f"{module.name} defines {name}; use {NAMES[name]}" for name in NAMES if name in defined]
        if "<!doctype" in text.lower():
            copies.append(f"{module.name} has a page; use PluginContext.add_report")
    assert copies == []
