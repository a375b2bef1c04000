"""Which Ingresses are ours."""

from __future__ import annotations

import pytest
from ctrlhost_ingress_status import IngressStatusSettings
from ctrlhost_ingress_status.classes import LEGACY_ANNOTATION, VENDOR_ANNOTATION, IngressClass, effective_class

OURS = "example.com/controller"


def row(
    number: int, annotation: str | None, field: str | None, classes: str, match: bool, vendor: str | None = None
) -> object:
    marks = [pytest.mark.behaviour(f"ingress-status/C{number}")] if number <= 16 else []
    return pytest.param(annotation, field, classes, match, vendor, id=f"C{number}", marks=marks)


@pytest.mark.parametrize(
    ("annotation", "field", "classes", "match", "vendor"),
    [
        row(1, None, None, "", True),
        row(2, "contour", None, "", True),
        row(3, None, "contour", "", True),
        row(4, "foo", None, "", False),
        row(5, None, "aclass", "", False),
        row(6, None, None, "something", False),
        row(7, "something", None, "something", True),
        row(8, None, "something", "something", True),
        row(9, "foo", None, "something", False),
        row(10, None, "aclass", "something", False),
        row(11, "something", "aclass", "something", True),
        row(12, "foo", "something", "something", False),
        row(13, "foo", None, "something,somethingelse", False),
        row(14, None, "aclass", "something,somethingelse", False),
        row(15, "something", "aclass", "somethingelse,something", True),
        row(16, "foo", "something", "something,somethingelse", False),
        row(17, "nginx", None, "", True, vendor="contour"),
        row(18, "nginx", None, "", True, vendor=""),
        row(19, "", "nginx", "", False),
        row(20, None, "b", "a, b", True),
        row(21, None, "Contour", "", False),
    ],
)
def test_an_ingress_is_ours_by_its_class(
    annotation: str | None, field: str | None, classes: str, match: bool, vendor: str | None
) -> None:
    annotations = {LEGACY_ANNOTATION: annotation, VENDOR_ANNOTATION: vendor}
    given = {key: value for key, value in annotations.items() if value is not None}
    ours = IngressStatusSettings(ingress_class_name=classes).class_rules().ours()
    assert (effective_class(given, field) in ours) is match


def test_another_vendor_annotation_can_be_configured() -> None:
    annotations = {VENDOR_ANNOTATION: "contour", "example.com/class": "other"}
    assert effective_class(annotations, None, "example.com/class") == "other"


def test_the_class_objects_of_our_controller_are_ours_as_long_as_they_exist() -> None:
    rules = IngressStatusSettings(class_mode="controller", ingress_class_controller=OURS).class_rules()
    mine, theirs = IngressClass("ext", OURS), IngressClass("nginx", "k8s.io/ingress-nginx")
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
    assert ("" in rules.ours([IngressClass("ext", OURS, default=True)])) is flag
    assert "" not in rules.ours([IngressClass("ext", OURS), IngressClass("nginx", "other", default=True)])


def test_a_default_class_of_a_configured_name_takes_no_ingress_without_a_class() -> None:
    ours = IngressStatusSettings(ingress_class_name="nginx").class_rules().ours([IngressClass("nginx", "x", True)])
    assert ours == {"nginx"}
