"""The sources that `ctrlhost dev` watches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ctrlhost.authoring.sources import Sources, changes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path in (
        "operator.py",
        "shared.py",
        "notes.txt",
        "package/__init__.py",
        "package/code.py",
        "package/crds/kind.yaml",
        "package/__pycache__/code.py",
        "data/values.yaml",
        ".venv/lib.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    return tmp_path


def test_the_modules_and_packages_beside_a_file_are_its_sources(tree):
    snapshot = Sources.of([tree / "operator.py"], []).snapshot()
    names = {path.removeprefix(f"{tree}/") for path in snapshot}
    assert names == {
        "operator.py",
        "shared.py",
        "package/__init__.py",
        "package/code.py",
        "package/crds/kind.yaml",
    }


def test_a_package_and_a_single_module_are_found_by_name_without_an_import(tree, monkeypatch):
    monkeypatch.syspath_prepend(str(tree))
    (tree / "package/__init__.py").write_text("raise SystemExit('imported')")
    snapshot = Sources.of([], ["package.code", "shared", "no_such_module_at_all"], [tree / "notes.txt"]).snapshot()
    names = {path.removeprefix(f"{tree}/") for path in snapshot}
    assert names == {"package/__init__.py", "package/code.py", "package/crds/kind.yaml", "shared.py", "notes.txt"}


def test_changed_added_and_removed_files_are_found(tree):
    sources = Sources.of([tree / "operator.py"], [])
    before = sources.snapshot()
    assert changes(before, sources.snapshot()) == []
    (tree / "package/code.py").unlink()
    (tree / "added.py").write_text("")
    # Replaced by a file of the same size and time, as some editors do.
    (tree / "new").write_text("")
    times = (tree / "shared.py").stat()
    os.utime(tree / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
    (tree / "new").rename(tree / "shared.py")
    difference = changes(before, sources.snapshot())
    assert difference == [f"{tree}/{name}" for name in ("added.py", "package/code.py", "shared.py")]


def test_missing_directories_have_no_sources(tmp_path):
    assert Sources([tmp_path / "none.py"], [tmp_path / "none"]).snapshot() == {}
