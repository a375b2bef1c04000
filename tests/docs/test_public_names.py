"""The public names are one sorted list, and each can be imported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ctrlhost
from ctrlhost import cache, errors, workqueue
from tests.docs.api_pages import MODULES, SUMMARIES, members

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def test_the_list_is_sorted_and_without_duplicates():
    assert ctrlhost.__all__ == sorted(set(ctrlhost.__all__))


@pytest.mark.parametrize("name", ctrlhost.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(ctrlhost, name) is not None


def test_the_public_names_are_complete():
    named_errors = {name for name in ctrlhost.__all__ if isinstance(getattr(errors, name, None), type)}
    assert set(ctrlhost.__all__) == {*ctrlhost._HOMES, *named_errors, "__version__"}
    assert set(ctrlhost.__all__) <= set(dir(ctrlhost))


@pytest.mark.behaviour("authoring/AD4")
@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_docstring_and_a_place(module):
    text = (PAGES / "names.md").read_text(encoding="utf-8")
    _, _, section = text.partition(f"## `{module}`\n")
    section = section.partition("\n## ")[0]
    for name in MODULES[module].__all__:
        value = getattr(MODULES[module], name)
        assert SUMMARIES.get(name) or (type(value).__doc__ != value.__doc__ and value.__doc__), name
        (row,) = [line for line in section.splitlines() if line.startswith((f"| `{name}` |", f"| [`{name}`]"))]
        assert len(row.split("|")[2]) > 10, row
        if place := re.search(r"\]\(([a-z]+\.md)#", row):
            assert f"\n## `{name}`\n" in (PAGES / place[1]).read_text(encoding="utf-8")


@pytest.mark.behaviour("authoring/AD4")
@pytest.mark.parametrize("name", ["Plugin", "Context", "Object", "Client", "Permission"])
def test_a_class_with_a_page_has_each_member_in_it(name):
    text = (PAGES / f"{name.lower()}.md").read_text(encoding="utf-8")
    for member in members(getattr(ctrlhost, name)):
        assert re.search(rf"^### `{member}\b|^Fields: .*`{member}`", text, re.MULTILINE), member


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = ctrlhost.Nothing


@pytest.mark.behaviour("authoring/AU41")
@pytest.mark.parametrize("name", ["workqueue", "cache", "testing"])
def test_public_modules_need_no_import_of_their_own(name):
    code = f"""
import sys
import ctrlhost
assert "ctrlhost.{name}" not in sys.modules
module = ctrlhost.{name}
import ctrlhost.{name} as imported
assert type(module) is type(sys) and module is imported is ctrlhost.{name} is sys.modules["ctrlhost.{name}"]
print(len(module.__all__))
"""
    stdout = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(stdout) > 5


def test_importing_ctrlhost_imports_no_library():
    heavy = ["click", "kubernetes", "msgspec", "pluggy", "starlette", "structlog", "urllib3", "yaml"]
    code = f"import sys, ctrlhost; print([name for name in {heavy} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.parametrize(
    "kind",
    [
        cache.Delta,
        cache.DeletedFinalStateUnknown,
        cache.DeltaFIFO,
        cache.Indexer,
        cache.ListView,
        cache.MapView,
        cache.Object,
        cache.OwnerReference,
        workqueue.WorkQueue,
    ],
)
def test_each_method_of_the_core_has_a_docstring(kind):
    public = {name: member for name, member in vars(kind).items() if not name.startswith("_")}
    assert public
    assert [name for name, member in public.items() if not (member.__doc__ or "").strip()] == []


@pytest.mark.behaviour("authoring/AD6")
def test_an_import_does_not_import_the_official_client() -> None:
    code = "import sys, ctrlhost, ctrlhost.testing; ctrlhost.Plugin; ctrlhost.Model; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
