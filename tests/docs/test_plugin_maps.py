"""No map of a bundled plugin reads an informer: the caches that it gets are full when it is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / "plugins"
PLUGINS = sorted(folder.parent.name for folder in HERE.glob("*/pyproject.toml"))


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Return the calls of a function or method of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == name:
            yield node


def names(tree: ast.AST) -> set[str]:
    """Return the names and attributes that are read."""
    attrs = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return attrs | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def read_in_maps(source: str) -> set[str]:
    """Return what the maps of a module read, and the functions that they call."""
    tree = ast.parse(source)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    maps = [word.value for call in calls(tree, "Watches") for word in call.keywords if word.arg == "map"]
    read, pending = set[str](), set[str]().union(*map(names, maps))
    while pending:
        read |= pending
        pending = set[str]().union(*(names(functions[name]) for name in pending if name in functions)) - read
    return read


def informers(source: str) -> set[str]:
    """Return the names that informers are assigned to."""
    tree = ast.parse(source)
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and any(calls(node.value, "informer"))]
    return set[str]().union(*(names(target) for node in assigned for target in node.targets)) - {"self"}


@pytest.mark.behaviour("authoring/AD8")
@pytest.mark.parametrize("plugin", PLUGINS)
def test_no_map_of_a_plugin_reads_an_informer(plugin: str) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (HERE / plugin / "src").rglob("*.py")]
    assert sources
    assert [name for source in sources for name in informers(source) & read_in_maps(source)] == []


def test_an_informer_in_a_map_is_found() -> None:
    source = """
class Wiring:
    def __init__(self, plugin):
        self._hosts = plugin.informer("v1", "Host")
        source = ctrlhost.Watches("v1", "Pod", map=self.of_pod)

    def of_pod(self, pod):
        return self._look(pod)

    def _look(self, pod):
        return self._hosts.lister.list()
"""
    assert informers(source) & read_in_maps(source) == {"_hosts"}
    assert informers(source) & read_in_maps(source.replace("self._look(pod)", "[]")) == set()
