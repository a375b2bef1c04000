"""The public names are one sorted list, and each can be imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ctrlhost
from ctrlhost import cache, errors, workqueue


def test_the_list_is_sorted_and_without_duplicates():
    assert ctrlhost.__all__ == sorted(set(ctrlhost.__all__))


@pytest.mark.parametrize("name", ctrlhost.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(ctrlhost, name) is not None


def test_the_public_names_are_complete():
    named_errors = {name for name in ctrlhost.__all__ if isinstance(getattr(errors, name, None), type)}
    assert set(ctrlhost.__all__) == {*ctrlhost._HOMES, *named_errors, "__version__"}
    assert set(ctrlhost.__all__) <= set(dir(ctrlhost))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = ctrlhost.Nothing


def test_importing_ctrlhost_imports_no_library():
    heavy = ["click", "kubernetes", "msgspec", "pluggy", "starlette", "structlog", "urllib3", "uvicorn", "yaml"]
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
