"""CRDs of models."""

from __future__ import annotations

import msgspec
import pytest

import ctrlhost
from ctrlhost.models.crd import defines_kind
from tests.support.waiting import create_eventually


class Spec(msgspec.Struct, frozen=True):
    size: int = 1


@ctrlhost.resource(
    "example.com/v1",
    kind="Thing",
    plural="thingies",
    scope="Cluster",
    columns=[ctrlhost.Column("Size", ".spec.size", "integer"), ctrlhost.Column("Image", ".spec.image")],
)
class OurThing(ctrlhost.Model[Spec, None]):
    pass


class SetStatus(ctrlhost.ModelStatus):
    replicas: int | None = None
    selector: str | None = None


@ctrlhost.resource(
    "example.com/v1",
    categories=["all"],
    scale=(".spec.size", ".status.replicas", ".status.selector"),
    rules=[ctrlhost.Rule("self.metadata.name.size() <= 4", message="metadata.name is too long")],
    columns=[ctrlhost.Column("Selector", ".status.selector", priority=1)],
)
class Set(ctrlhost.Model[Spec, SetStatus]):
    pass


@ctrlhost.resource("example.com/v1")
class View(msgspec.Struct):
    metadata: ctrlhost.ObjectMeta


@ctrlhost.resource("v1")
class Core(ctrlhost.Model[Spec, None]):
    pass


@ctrlhost.resource("apps/v1/Deployment")
class BuiltIn(ctrlhost.Model[Spec, None]):
    pass


@ctrlhost.resource("example.com/v1")
class Text(ctrlhost.Model["Spec", None]):
    pass


@ctrlhost.resource("example.com/v1")
class Bare(ctrlhost.Model):  # type: ignore[type-arg]
    pass


class Unnamed(ctrlhost.Model[Spec, None]):
    pass


def test_names_scope_and_columns_are_those_of_the_decorator() -> None:
    crd = ctrlhost.crd_of(OurThing)
    assert crd["metadata"]["name"] == "thingies.example.com"
    assert crd["spec"]["scope"] == "Cluster"
    assert crd["spec"]["names"] == {
        "kind": "Thing",
        "listKind": "ThingList",
        "plural": "thingies",
        "singular": "thing",
    }
    (version,) = crd["spec"]["versions"]
    assert version["additionalPrinterColumns"] == [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Image", "type": "string", "jsonPath": ".spec.image"},
    ]


def test_the_decorator_adds_a_scale_categories_and_rules_for_the_whole_object() -> None:
    crd = ctrlhost.crd_of(Set)
    assert crd["spec"]["names"]["categories"] == ["all"]
    (version,) = crd["spec"]["versions"]
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}
    assert version["subresources"] == {"status": {}, "scale": {**paths, "labelSelectorPath": ".status.selector"}}
    assert version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] == [
        {"rule": "self.metadata.name.size() <= 4", "message": "metadata.name is too long"}
    ]
    assert version["additionalPrinterColumns"][0]["priority"] == 1


def test_a_server_scales_a_model_and_keeps_its_rules(sandbox) -> None:
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    client.create(ctrlhost.crd_of(Set))
    thing = {"apiVersion": "example.com/v1", "kind": "Set", "metadata": {"name": "long", "namespace": "default"}}
    create_eventually(client, {**thing, "spec": {}})
    patch = {"spec": {"replicas": 3}}
    client.patch("example.com/v1", "Set", "long", "default", patch, subresource="scale")
    assert client.get("example.com/v1", "Set", "long", "default")["spec"]["size"] == 3
    with pytest.raises(ctrlhost.Invalid, match=r"metadata\.name is too long"):
        client.create({**thing, "metadata": {"name": "longer", "namespace": "default"}, "spec": {}})
    client.close()


def test_without_a_status_there_is_no_subresource() -> None:
    (version,) = ctrlhost.crd_of(OurThing)["spec"]["versions"]
    assert "subresources" not in version
    assert list(version["schema"]["openAPIV3Schema"]["properties"]) == ["spec"]


def test_the_same_model_gives_a_fresh_and_equal_crd() -> None:
    first = ctrlhost.crd_of(OurThing)
    second = ctrlhost.crd_of(OurThing)
    assert (first == second, first is second) == (True, False)


@pytest.mark.parametrize(
    ("struct", "problem"),
    [
        (View, "View is not a model"),
        (Unnamed, "Unnamed is not a model"),
        (Core, "Core: v1 is not of a custom kind"),
        (BuiltIn, "BuiltIn: apps/v1 is not of a custom kind"),
        (Text, "Text: spec: the type 'Spec' is a text"),
        (Bare, "Bare: the types of spec and status are missing"),
    ],
)
def test_what_defines_no_kind_has_no_crd(struct, problem) -> None:
    with pytest.raises(ctrlhost.ConfigError, match=problem) as raised:
        ctrlhost.crd_of(struct)
    assert raised.value.hint


def test_only_models_with_a_kind_define_it() -> None:
    assert [defines_kind(model) for model in (OurThing, View, Unnamed, None)] == [True, False, False, False]
