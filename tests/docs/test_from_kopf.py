"""The page for users of kopf has all that the installed kopf can decorate, and each row leads to its section."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import kopf
import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "from-kopf.md").read_text(encoding="utf-8")
#: What takes the place of a handler, or is called by one. The rest of kopf's names are types and parts of its settings.
FUNCTIONS = ("adopt", "append_owner_reference", "event", "exception", "execute", "info", "warn")


def decorators() -> list[str]:
    """Return the decorators of `kopf.on`, and those that are names of `kopf` as well."""
    names = [
        name
        for name, function in vars(kopf.on).items()
        if inspect.isfunction(function) and function.__module__ == kopf.on.__name__ and not name.startswith("_")
    ]
    again = [name for name in names if getattr(kopf, name, None) is getattr(kopf.on, name)]
    return [f"@kopf.on.{name}" for name in names] + [f"@kopf.{name}" for name in again]


def test_kopf_has_decorators() -> None:
    assert {"@kopf.on.create", "@kopf.on.daemon", "@kopf.daemon"} <= set(decorators())


@pytest.mark.parametrize("name", [*decorators(), *(f"kopf.{name}" for name in FUNCTIONS)])
def test_each_is_in_the_table_with_a_section(name: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| [") and f"`{name}`" in line]
    anchor = re.search(r"\]\(#([a-z-]+)\)", row)
    assert anchor is not None
    titles = {
        re.sub(r"[^a-z -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    }
    assert anchor[1] in titles


@pytest.mark.parametrize("error", ["TemporaryError", "PermanentError"])
def test_each_error_of_kopf_has_its_counterpart(error: str) -> None:
    assert isinstance(getattr(kopf, error), type)
    assert f"`kopf.{error}`" in PAGE


def test_the_finalizer_of_kopf_is_the_one_that_is_taken_off() -> None:
    assert f'@plugin.finalizer("{kopf.OperatorSettings().persistence.finalizer}"' in PAGE
    assert f"{kopf.AnnotationsDiffBaseStorage().prefix}/{kopf.AnnotationsDiffBaseStorage().key}" in PAGE
