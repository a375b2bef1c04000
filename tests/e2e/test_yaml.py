"""Plain scalars in YAML, which ctrlhost reads as kubectl does."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

import ctrlhost
from ctrlhost.testing.documents import documents
from ctrlhost.yaml_text import dump_document, load_document, load_documents, load_objects
from tests.support.control_plane import BINARY, require_kube_apiserver

if TYPE_CHECKING:
    from pathlib import Path

SCALARS = [
    *("=", "2222:22", "1:30", "2024-01-02", "2001-12-14t21:59:43.10-05:00", "No", "y", "N", "on", "Off", "TRUE"),
    *("1e3", "1E+3", "0o17", "017", "0x1F", "0b11", "09", "1_000", "_1", "-0", "+5", "1.0", ".5", "5.", "-.5e-3"),
    *("~", "null", "Null", "nULL", "9223372036854775807", "-9223372036854775808", "1.2.3", "0x", "<<", "1e400"),
    *("-L", "-L, 2222:22", "yes no", "'1'", '"on"', "0.1e", "e3"),
]
#: Each is a file of one object, which has the scalars in a list.
TEXT = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n  values:\n" + "".join(
    f"  - {scalar}\n" for scalar in SCALARS
)
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec: {group: example.com, scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: v1}]}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "thing.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def as_kubectl_reads(path: Path) -> object:
    """Return the object of a file; this sends nothing."""
    require_kube_apiserver()
    options = ("--local", "--type=merge", "--patch={}", f"--filename={path}", "--output=json")
    done = subprocess.run(
        [BINARY, "kubectl", "patch", *options],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "HOME": str(path.parent), "KUBECONFIG": str(path.parent / "none")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.real
@pytest.mark.behaviour("findings3/NB4")
def test_each_reader_reads_what_kubectl_reads(path: Path, tmp_path: Path) -> None:
    expected = as_kubectl_reads(path)
    text = path.read_text(encoding="utf-8")
    assert load_document(text) == expected
    assert load_documents(text) == load_objects(text) == list(documents(path)) == [expected]
    # What is written is read as it was meant.
    path.write_text(dump_document(expected), encoding="utf-8")
    assert as_kubectl_reads(path) == load_document(path.read_text(encoding="utf-8")) == expected


def test_the_crd_files_of_a_plugin_are_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "yaml_crds"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "crd.yaml").write_text(CRD + "example: {hours: 1:30, field: y, mode: 0o17}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (crd,) = ctrlhost.crds_from("yaml_crds", "crd.yaml")
    assert crd["example"] == {"hours": "1:30", "field": True, "mode": 15}
