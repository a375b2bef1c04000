"""The page for users of controller-runtime names what exists on our side."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import ctrlhost
from ctrlhost import predicates
from ctrlhost.cli.group import COMMANDS
from ctrlhost.controller.source import SourceOptions

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "from-controller-runtime.md").read_text("utf-8")
OURS = " ".join(
    line.split(" | ", 1)[1]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "controller-runtime |" not in line
)


def used(pattern: str) -> set[str]:
    found = set(re.findall(pattern, OURS))
    assert found, pattern
    return found


def test_the_names_exist() -> None:
    assert {name for name in used(r"ctrlhost\.([A-Z]\w+)") if name not in ctrlhost.__all__} == set()
    assert {name for name in used(r"plugin\.([a-z]\w+)") if not hasattr(ctrlhost.Plugin, name)} == {"add_controller"}
    assert hasattr(ctrlhost.PluginContext, "add_controller")
    for kind, pattern in ((ctrlhost.Context, r"ctx\.([a-z]\w+)"), (ctrlhost.Client, r"ctx\.client\.([a-z]\w+)")):
        assert {name for name in used(pattern) if not hasattr(kind, name) and name != "client"} == set()
    assert {name for name in used(r"ctrlhost ([a-z]+)") if name not in COMMANDS} == set()


def test_each_ready_predicate_has_a_row() -> None:
    ready = {name for name, value in vars(predicates).items() if isinstance(value, predicates.Ready)}
    for name in {*ready, "and_", "or_", "not_"}:
        assert f"`{name}`" in PAGE


def test_each_option_of_a_controller_is_one() -> None:
    section = PAGE[PAGE.index("## Builder") : PAGE.index("## Results")]
    options = {*signature(ctrlhost.PluginContext.add_controller).parameters, *SourceOptions.__annotations__}
    declared = {
        "owns",
        "watches",
        "every",
        "name",
        "workers",
        "timeout",
        "needs_leader",
        "predicates",
        "map",
        "controller",
    }
    assert set(re.findall(r"\b([a-z_]+)=", section)) <= options | declared
