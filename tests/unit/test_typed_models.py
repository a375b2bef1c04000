"""`ctrlhost models`: structs from the schema of a CRD, and what they take."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml

from ctrlhost.cache import Object
from ctrlhost.cli import run

BITCOIN = Path(__file__).parents[2] / "plugins/bitcoin/src/ctrlhost_bitcoin"


def crd(properties: dict[str, Any], **schema: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {**version, "schema": {"openAPIV3Schema": {"type": "object", "properties": properties, **schema}}},
                {"name": "v2", "served": True, "storage": False},
            ],
        },
    }


@pytest.fixture
def models(tmp_path, capsys):
    """Write models of properties and import them."""

    def make(properties: dict[str, Any]) -> ModuleType:
        file = tmp_path / "crd.yaml"
        file.write_text(yaml.safe_dump(crd(properties)))
        assert run(["models", str(file)]) == 0
        module = ModuleType("written_models")
        sys.modules[module.__name__] = module
        exec(capsys.readouterr().out, module.__dict__)
        return module

    yield make
    sys.modules.pop("written_models", None)


def thing(**fields: Any) -> Object:
    return Object({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, **fields})


def test_an_object_is_decoded_into_its_struct_and_written_as_it_was(models):
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


@pytest.mark.parametrize("change", [{"kind": "Other"}, {"apiVersion": "example.com/v2"}, {"spec": {"size": "3"}}])
def test_what_is_of_another_kind_or_does_not_fit_is_refused(models, change):
    module = models({"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}})
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**thing(spec={}).to_dict(), **change}, module.Thing)


def test_a_list_has_its_own_struct(models):
    module = models({"spec": {"type": "object"}})
    answer = {"apiVersion": "example.com/v1", "kind": "ThingList", "metadata": {}, "items": [thing().to_dict()]}
    assert [one.metadata["name"] for one in msgspec.convert(answer, module.ThingList).items] == ["a"]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a: [", [], "is neither YAML nor JSON"),
        ("", [], "has to hold one CustomResourceDefinition, and holds 0 documents"),
        ("kind: Pod", [], "this is no CustomResourceDefinition but Pod"),
        ("kind: CustomResourceDefinition", [], "is no complete CustomResourceDefinition: 'spec'"),
        (yaml.safe_dump(crd({})), ["--version", "v2"], "things.example.com has no schema for version v2"),
        (yaml.safe_dump(crd({})), ["--version", "v3"], "things.example.com has no version v3"),
    ],
)
def test_what_is_no_crd_is_one_line(tmp_path, capsys, text, options, said):
    file = tmp_path / "crd.yaml"
    file.write_text(text)
    assert run(["models", str(file), *options]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert said in written.err.splitlines()[0]
    assert "Traceback" not in written.err


def test_the_models_of_bitcoin_are_those_of_its_crd(capsys):
    assert run(["models", str(BITCOIN / "crds" / "bitcoinnetworks.yaml")]) == 0
    assert capsys.readouterr().out == (BITCOIN / "models.py").read_text()
