"""CRDs in the YAML files of a package."""

from __future__ import annotations

import sys
from copy import deepcopy
from functools import reduce
from pathlib import Path

import pytest
import yaml

import ctrlhost
from tests.support.objects import crd

WIDGET, GADGET = crd("example.com", "Widget"), crd("example.com", "Gadget")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable package `own_crds` with two CRDs in one file and one in another."""
    folder = tmp_path / "own_crds"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "b.yaml").write_text(yaml.safe_dump_all([WIDGET, GADGET]) + "---\n", encoding="utf-8")
    (folder / "a.yaml").write_text(yaml.safe_dump(WIDGET), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_crds", raising=False)
    return folder


@pytest.mark.behaviour("findings/FP14")
@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("a.yaml",), [WIDGET]),
        (("b.yaml", "a.yaml"), [WIDGET, GADGET, WIDGET]),
        (("*.yaml",), [WIDGET, WIDGET, GADGET]),
        ((), []),
    ],
)
def test_the_files_of_a_package_are_read_in_order(package: Path, patterns: tuple[str, ...], expected: list) -> None:
    assert ctrlhost.crds_from("own_crds", *patterns) == expected


def test_the_crds_are_fresh_each_time(package: Path) -> None:
    ctrlhost.crds_from("own_crds", "a.yaml")[0]["metadata"]["name"] = "changed"
    assert ctrlhost.crds_from("own_crds", "a.yaml") == [WIDGET]


def test_a_missing_file_is_named(package: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file `\*\.yml` in the package own_crds"):
        ctrlhost.crds_from("own_crds", "*.yml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: \xfc", "own_crds/c.yaml: invalid YAML"),
        (b"a: [", "own_crds/c.yaml: invalid YAML"),
        (b"kind: ConfigMap", "own_crds/c.yaml has an object that is not a CustomResourceDefinition"),
        (b"- 1", "own_crds/c.yaml: a document is no object but list"),
        (b"kind: CustomResourceDefinition", "own_crds/c.yaml: metadata.name: Required value"),
    ],
)
def test_a_file_of_something_else_is_named(package: Path, text: bytes, message: str) -> None:
    (package / "c.yaml").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        ctrlhost.crds_from("own_crds", "c.yaml")


@pytest.mark.behaviour("authoring/AM13")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", ""),
        ("spec", None),
        ("spec.group", 3),
        ("spec.names", "gadgets"),
        ("spec.names.kind", []),
        ("spec.names.plural", None),
        ("spec.versions", []),
        ("spec.versions", ["v1"]),
    ],
)
def test_a_crd_without_names_is_named_with_its_path(package: Path, path: str, value: object) -> None:
    changed = deepcopy(GADGET)
    *above, last = path.split(".")
    reduce(dict.__getitem__, above, changed)[last] = value
    (package / "c.yaml").write_text(yaml.safe_dump_all([WIDGET, changed]), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^own_crds/c\.yaml: {path}[a-z.]*: Required value$"):
        ctrlhost.crds_from("own_crds", "c.yaml")
