"""The recipe for a kind: a line in `registry/builtin`, a strategy in its group's file, a run of `generate`."""

from __future__ import annotations

import pytest

from ctrlhost.sandbox.kinds import _STRATEGIES
from ctrlhost.sandbox.registry.builtin import builtin_kinds
from ctrlhost.sandbox.schema.shapes import of_kind, package_of

KINDS = {(kind.group, kind.kind) for kind in builtin_kinds()}


@pytest.mark.parametrize(("group", "kind"), sorted(KINDS))
def test_each_kind_has_its_fields(group: str, kind: str) -> None:
    assert of_kind(group, kind) is not None


def test_each_strategy_is_of_a_served_kind() -> None:
    assert set(_STRATEGIES) - KINDS == {("autoscaling", "Scale")}
    assert len(_STRATEGIES) > 20


@pytest.mark.parametrize(
    ("group", "package"),
    [
        ("", "core"),
        ("apps", "apps"),
        ("rbac.authorization.k8s.io", "rbac"),
        ("apps.example.com", ""),
        ("apps.notk8s.io", ""),
    ],
)
def test_only_groups_of_kubernetes_have_a_package(group: str, package: str) -> None:
    assert package_of(group) == package


def test_a_custom_kind_has_no_built_in_fields() -> None:
    assert of_kind("apps", "Deployment") is not None
    assert of_kind("apps.example.com", "Deployment") is None
