"""pyright on what authors write and what `ctrlhost models` writes for them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.objects import crd

ROOT = Path(__file__).parents[2]
FILES = ("declarations.py", "uses.py")
#: Each structural part that has a type of its own.
CRD = crd(
    "example.com",
    "Thing",
    "Cluster",
    schema={
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "class": {"type": "string", "enum": ["a", "b"]},
                    "ports": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["target"],
                            "properties": {"target": {"x-kubernetes-int-or-string": True}},
                        },
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "conditions": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["type", "status", "lastTransitionTime"],
                            "properties": {
                                "type": {"type": "string"},
                                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                                "lastTransitionTime": {"type": "string", "format": "date-time"},
                                "reason": {"type": "string"},
                                "message": {"type": "string"},
                                "observedGeneration": {"type": "integer", "format": "int64"},
                            },
                        },
                    }
                },
            },
        },
    },
)
USER = """
from typing import Any, Literal, assert_type

import ctrlhost
from made import Thing, ThingSpec

plugin = ctrlhost.Plugin()


@plugin.controller(Thing)
def reconcile(ctx: ctrlhost.Context[Thing, None], thing: Thing) -> None:
    assert_type(thing.metadata, ctrlhost.ObjectMeta)
    assert_type(thing.spec, ThingSpec)
    assert_type(thing.spec.class_, Literal["a", "b"] | None)
    assert_type(thing.spec.labels, dict[str, str] | None)
    assert_type(thing.spec.free, dict[str, Any] | None)
    assert thing.spec.ports is not None and thing.status is not None
    assert_type(thing.spec.ports[0].target, int | str)
    assert_type(thing.status.conditions, list[ctrlhost.Condition] | None)
    thing.spec = ThingSpec()  # type: ignore[misc]
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a folder with the models of a CRD, and a module that uses them."""
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(CRD))
    command = [sys.executable, "-m", "ctrlhost", "models", str(tmp_path / "crd.yaml")]
    written = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (tmp_path / "made.py").write_text(written)
    (tmp_path / "user.py").write_text(USER)
    return tmp_path


@pytest.mark.slow
@pytest.mark.behaviour("authoring/AU34")
def test_generated_models_pass_the_strictest_checks_of_both_type_checkers(models: Path) -> None:
    pyright(models)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "made.py", "user.py"]
    environment = {"MYPYPATH": str(ROOT), "PATH": "", "MYPY_CACHE_DIR": str(models / "cache")}
    result = subprocess.run(command, cwd=models, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.behaviour("authoring/AU35")
def test_uses_of_the_api_have_the_right_types_and_misspelt_fields_are_errors(tmp_path: Path) -> None:
    """`assert_type` fails where a type is Any; an ignored error that is none fails too. mypy: test_mypy.py."""
    for name in FILES:
        (tmp_path / name).write_bytes((Path(__file__).parent / name).read_bytes())
    pyright(tmp_path)


def pyright(folder: Path) -> None:
    """Check all modules of a folder; AssertionError if anything is wrong."""
    output = pyright_of(folder)
    assert "0 errors, 0 warnings" in output, output


def pyright_of(folder: Path) -> str:
    """Return what pyright says of the modules of a folder."""
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT)],
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--project", str(folder), "--pythonpath", sys.executable]
    checked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=110)
    return checked.stdout + checked.stderr
