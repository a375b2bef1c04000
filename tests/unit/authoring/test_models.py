"""`ctrlhost models`: structs from the schema of a CRD, and the objects that they accept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml
from ctrlhost_bitcoin import plugin

from ctrlhost.cache import Object
from ctrlhost.cli import execute
from ctrlhost.yaml_text import dump_document
from tests.support import objects

ROOT = Path(__file__).parents[3]


def crd(properties: dict[str, Any], **schema: Any) -> dict[str, Any]:
    body = objects.crd("example.com", "Thing", schema={"type": "object", "properties": properties, **schema})
    body["spec"]["versions"].append({"name": "v2", "served": True, "storage": False})
    return body


RECURSIVE: dict[str, Any] = {"type": "object"}
RECURSIVE["properties"] = {"again": RECURSIVE}


@pytest.fixture
def models(tmp_path, capsys):
    """Write models of `properties` and import them."""

    def make(properties: dict[str, Any]) -> ModuleType:
        file = tmp_path / "crd.yaml"
        file.write_text(dump_document(crd(properties)))
        assert execute(["models", str(file)]) == 0
        module = ModuleType("written_models")
        sys.modules[module.__name__] = module
        exec(capsys.readouterr().out, module.__dict__)
        return module

    yield make
    sys.modules.pop("written_models", None)


def thing(**fields: Any) -> Object:
    return Object({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, **fields})


def test_an_object_survives_a_round_trip_through_its_struct(models):
    inner = {
        "type": "object",
        "required": ["from"],
        "properties": {"from": {"type": "string"}, "x-y": {"type": "number"}},
    }
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer"},
            "port": {"x-kubernetes-int-or-string": True},
            "mode": {"type": "string", "enum": ["Fast", 'say "no"']},
            "rules": {"type": "array", "items": inner},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "hint": {"type": "string", "nullable": True},
            "class": {"type": "boolean"},
        },
    }
    module = models({"spec": spec})
    written = {
        "size": 3,
        "port": "http",
        "mode": 'say "no"',
        "rules": [{"from": "here", "x-y": 1.5}],
        "labels": {"a": "b"},
        "free": {"any": [1]},
        "class": True,
    }
    decoded = thing(spec=written).decode(module.Thing)
    assert (decoded.spec.size, decoded.spec.port, decoded.spec.rules[0].from_) == (3, "http", "here")
    assert decoded.spec.class_ is True
    assert decoded.spec.hint is None
    assert msgspec.to_builtins(decoded) == thing(spec=written).to_dict()


ODD = {
    "int": {"type": "integer", "description": 'Ends in a backslash \\ and has """ and \n a line end.'},
    "class": {"type": "string", "enum": ["a", 'b"', "c\\", "d\ne"]},
    "class_": {"type": "boolean", "enum": [True]},
    "a-b": {"type": "number"},
    "a.b": {"type": "array", "items": {"type": "integer", "nullable": True}},
    "a_b": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
    "1st": {"x-kubernetes-int-or-string": True},
    "__private": {"type": "string", "nullable": True},
    "$ref'd": {"type": "integer", "enum": [1, 2]},
    "msgspec": {"type": "string"},
    "größe": {"type": "integer"},
    "Spec": {"type": "object", "properties": {"x": {"type": "string"}}},
    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"y": {"type": "string"}}},
    "lists": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "object", "properties": {"z": {"type": "boolean"}}}},
    },
    "anything": {"x-kubernetes-preserve-unknown-fields": True},
    "only": None,
}


def test_odd_names_and_types_are_kept_on_the_wire(models):
    module = models(ODD)
    written = {
        "int": 1,
        "class": "d\ne",
        "class_": True,
        "a-b": 1.5,
        "a.b": [1, None],
        "a_b": {"k": None},
        "1st": "x",
        "__private": "p",
        "$ref'd": 2,
        "msgspec": "m",
        "größe": 3,
        "Spec": {"x": "upper"},
        "spec": {"y": "lower"},
        "lists": [[{"z": True}]],
        "anything": {"a": [1]},
        "only": "this",
    }
    decoded = thing(**written).decode(module.Thing)
    assert (decoded.int_, decoded.class_, decoded.class__, decoded.a_b, decoded.lists[0][0].z) == (
        1,
        True,
        "d\ne",
        {"k": None},
        True,
    )
    assert msgspec.to_builtins(decoded) == thing(**written).to_dict()


@pytest.mark.parametrize("kind", ["Any", "none", "my-kind", "str"])
def test_a_module_of_any_kind_passes_the_linter_and_the_strictest_type_check(tmp_path, capsys, kind):
    odd = crd(ODD)
    odd["spec"]["names"]["kind"] = kind
    odd["metadata"]["name"] = 'x"""\nraise SystemExit'
    (tmp_path / "crd.yaml").write_text(dump_document(odd))
    assert execute(["models", str(tmp_path / "crd.yaml")]) == 0
    file = tmp_path / "models.py"
    file.write_text(capsys.readouterr().out)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import models; print(models.__doc__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "raise SystemExit" in done.stdout
    checks = [["ruff", "check", "--config", str(ROOT / "pyproject.toml"), "--no-cache"]]
    if kind == "my-kind":
        # Slow, and the other modules would not add coverage.
        checks.append(["mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"])
    for check in checks:
        done = subprocess.run([sys.executable, "-m", *check, str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("change", [{"kind": "Other"}, {"apiVersion": "example.com/v2"}, {"spec": {"size": "3"}}])
def test_objects_of_another_kind_or_shape_are_refused(models, change):
    module = models({"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}})
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**thing(spec={}).to_dict(), **change}, module.Thing)


def test_a_list_has_its_own_struct(models):
    module = models({"spec": {"type": "object"}})
    answer = {"apiVersion": "example.com/v1", "kind": "ThingList", "metadata": {}, "items": [thing().to_dict()]}
    assert [item.metadata.name for item in msgspec.convert(answer, module.ThingList).items] == ["a"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a: [", [], "is neither YAML nor JSON"),
        ("", [], "must contain one CustomResourceDefinition, got 0 documents"),
        ("kind: Pod", [], "not a CustomResourceDefinition: kind is 'Pod'"),
        ("kind: CustomResourceDefinition", [], "invalid CustomResourceDefinition: missing field 'spec'"),
        ("kind: CustomResourceDefinition\nspec: 5\nmetadata: {name: x}", [], "a field has the wrong type"),
        (dump_document(crd({})).replace("storage: true", "storage: false"), [], "has no stored version"),
        (yaml.safe_dump(crd({"spec": RECURSIVE})), [], "a field has the wrong type"),
        (dump_document(crd({'quo"te': {}})), [], "a struct cannot have such a field"),
        ("[1]", [], "must contain one CustomResourceDefinition"),
        ("a: \0", [], "is neither YAML nor JSON"),
        (dump_document(crd({})), ["--version", "v2"], "things.example.com has no schema for version v2"),
        (dump_document(crd({})), ["--version", "v3"], "things.example.com has no version v3"),
    ],
)
def test_an_invalid_crd_is_reported_in_one_line(tmp_path, capsys, text, options, message):
    file = tmp_path / "crd.yaml"
    file.write_text(text)
    assert execute(["models", str(file), *options]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert message in written.err.splitlines()[0]
    assert "Traceback" not in written.err


def test_a_missing_file_is_a_usage_error(tmp_path, capsys):
    assert execute(["models", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err
    assert execute(["models", str(tmp_path)]) == 2


def test_the_models_of_a_whole_crd_read_its_objects(tmp_path, capsys, monkeypatch):
    file = tmp_path / "crd.yaml"
    file.write_text(dump_document(plugin.ctrlhost_crds()[0]))
    assert execute(["models", str(file)]) == 0
    module = ModuleType("written_models")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(capsys.readouterr().out, module.__dict__)
    network = yaml.safe_load((ROOT / "plugins/bitcoin/examples/03-modern.yaml").read_text())
    converted = msgspec.convert(network, module.BitcoinNetwork)
    assert (converted.metadata.name, converted.spec.nodes) == (network["metadata"]["name"], network["spec"]["nodes"])
