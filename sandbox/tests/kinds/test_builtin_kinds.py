"""The recipe for a kind: a line in `registry/builtin`, a strategy in its group's file, a run of `generate`."""

from __future__ import annotations

import pytest
from ctrlhost_sandbox.kinds import _STRATEGIES
from ctrlhost_sandbox.registry.builtin import builtin_kinds
from ctrlhost_sandbox.schema.shapes import of_kind, package_of

SERVED = {(kind.group, kind.version, kind.kind) for kind in builtin_kinds()}
KINDS = {(group, kind) for group, _, kind in SERVED}


@pytest.mark.parametrize(("group", "version", "kind"), sorted(SERVED))
def test_each_kind_has_its_fields(group: str, version: str, kind: str) -> None:
    assert of_kind(group, version, kind) is not None


def test_each_strategy_is_of_a_served_kind() -> None:
    assert set(_STRATEGIES) - KINDS == {("autoscaling", "Scale")}
    assert len(_STRATEGIES) > 20


@pytest.mark.parametrize(
    ("group", "version", "package"),
    [
        ("", "v1", "core"),
        ("apps", "v1", "apps"),
        ("autoscaling", "v2", "autoscaling/v2"),
        ("rbac.authorization.k8s.io", "v1", "rbac"),
        ("apps.example.com", "v1", ""),
        ("apps.notk8s.io", "v1", ""),
    ],
)
def test_only_groups_of_kubernetes_have_a_package(group: str, version: str, package: str) -> None:
    assert package_of(group, version) == package


def test_a_custom_kind_has_no_built_in_fields() -> None:
    assert of_kind("apps", "v1", "Deployment") is not None
    assert of_kind("apps.example.com", "v1", "Deployment") is None
