"""Which Ingresses are ours."""

from __future__ import annotations

import pytest
from ctrlhost_ingress_status import IngressStatusSettings
from ctrlhost_ingress_status.classes import (
    DEFAULT_ANNOTATION,
    LEGACY_ANNOTATION,
    VENDOR_ANNOTATION,
    ClassSpec,
    IngressClass,
    effective_class,
)

from ctrlhost import ObjectMeta

OURS = "example.com/controller"


def row(
    name: str, annotation: str | None, field: str | None, classes: str, match: bool, vendor: str | None = None
) -> object:
    marks = [pytest.mark.behaviour(name)] if name.startswith("ingress-status/") else []
    return pytest.param(annotation, field, classes, match, vendor, id=name, marks=marks)


@pytest.mark.parametrize(
    ("annotation", "field", "classes", "match", "vendor"),
    [
        row("ingress-status/C1", None, None, "", True),
        row("ingress-status/C2", "contour", None, "", True),
        row("ingress-status/C3", None, "contour", "", True),
        row("ingress-status/C4", "foo", None, "", False),
        row("ingress-status/C5", None, "aclass", "", False),
        row("ingress-status/C6", None, None, "something", False),
        row("ingress-status/C7", "something", None, "something", True),
        row("ingress-status/C8", None, "something", "something", True),
        row("ingress-status/C9", "foo", None, "something", False),
        row("ingress-status/C10", None, "aclass", "something", False),
        row("ingress-status/C11", "something", "aclass", "something", True),
        row("ingress-status/C12", "foo", "something", "something", False),
        row("ingress-status/C13", "foo", None, "something,somethingelse", False),
        row("ingress-status/C14", None, "aclass", "something,somethingelse", False),
        row("ingress-status/C15", "something", "aclass", "somethingelse,something", True),
        row("ingress-status/C16", "foo", "something", "something,somethingelse", False),
        row("C17", "nginx", None, "", True, vendor="contour"),
        row("C18", "nginx", None, "", True, vendor=""),
        row("C19", "", "nginx", "", False),
        row("C20", None, "b", "a, b", True),
        row("C21", None, "Contour", "", False),
    ],
)
def test_an_ingress_is_ours_by_its_class(
    annotation: str | None, field: str | None, classes: str, match: bool, vendor: str | None
) -> None:
    annotations = {LEGACY_ANNOTATION: annotation, VENDOR_ANNOTATION: vendor}
    present = {key: value for key, value in annotations.items() if value is not None}
    ours = IngressStatusSettings(ingress_class_name=classes).class_rules().ours()
    assert (effective_class(present, field) in ours) is match


def class_of(name: str, controller: str = OURS, *, default: bool = False) -> IngressClass:
    annotations = {DEFAULT_ANNOTATION: "true"} if default else {}
    return IngressClass(ObjectMeta(name=name, annotations=annotations), ClassSpec(controller))


def test_another_vendor_annotation_can_be_configured() -> None:
    annotations = {VENDOR_ANNOTATION: "contour", "example.com/class": "other"}
    assert effective_class(annotations, None, "example.com/class") == "other"


def test_the_class_objects_of_our_controller_are_ours_as_long_as_they_exist() -> None:
    rules = IngressStatusSettings(class_mode="controller", ingress_class_controller=OURS).class_rules()
    mine, theirs = class_of("ext"), class_of("nginx", "k8s.io/ingress-nginx")
    assert "ext" in rules.ours([mine, theirs])
    assert "nginx" not in rules.ours([mine, theirs])
    assert "ext" not in rules.ours([theirs])


@pytest.mark.parametrize("flag", [True, False])
def test_ingresses_without_a_class_follow_our_default_class_if_asked_to(flag: bool) -> None:
    rules = IngressStatusSettings(
        ingress_class_name="named",
        class_mode="controller",
        ingress_class_controller=OURS,
        match_unclassed_if_default=flag,
    ).class_rules()
    assert ("" in rules.ours([class_of("ext", default=True)])) is flag
    assert "" not in rules.ours([class_of("ext"), class_of("nginx", "other", default=True)])


def test_a_default_class_of_a_configured_name_takes_no_ingress_without_a_class() -> None:
    ours = IngressStatusSettings(ingress_class_name="nginx").class_rules().ours([class_of("nginx", "x", default=True)])
    assert ours == {"nginx"}
