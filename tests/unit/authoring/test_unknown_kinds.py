"""Kinds and resources that no server has, and status fields that an object may lack."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.authoring.status_fields import required_status_fields
from ctrlhost.authoring.unknown_kinds import unknown_kind, unknown_resources
from ctrlhost.client.builtin_kinds import BUILTIN_KINDS
from tests.support.objects import crd

pytestmark = pytest.mark.behaviour("findings3/NA15")
WIDGET = crd("check.test", "Widget")


@pytest.mark.parametrize(
    ("api_version", "kind", "meant"),
    [
        ("v1", "secret", "`Secret`?"),
        ("v1", "configmaps", "`ConfigMap`?"),
        ("v1", "SECRET", "`Secret`?"),
        ("apps/v1", "deployments", "`Deployment`?"),
        ("networking.k8s.io/v1", "ingresses", "`Ingress`?"),
        ("check.test/v1", "widgets", "`Widget`?"),
        ("v1", "Deployment", "`Deployment` in apps/v1?"),
        ("v1", "deployments", "`Deployment` in apps/v1?"),
        ("app/v1", "Deployment", "`Deployment` in apps/v1?"),
        ("apps/v2", "StatefulSet", "`StatefulSet` in apps/v1?"),
        ("batch/v1", "CronJop", "`CronJob`?"),
    ],
)
def test_a_kind_that_is_not_there_is_told_with_the_one_that_was_meant(api_version: str, kind: str, meant: str) -> None:
    text, hint = unknown_kind(api_version, kind, [WIDGET]) or ("", "")
    assert f"`{kind}` in {api_version}" in text
    assert text.endswith(f"did you mean {meant}")
    assert hint


@pytest.mark.parametrize(("api_version", "kind"), [("v1", "Foo"), ("app/v1", "Thing")])
def test_a_kind_like_no_other_is_told_without_a_guess(api_version: str, kind: str) -> None:
    text, _ = unknown_kind(api_version, kind, []) or ("", "")
    assert text == f"no version of Kubernetes has a kind `{kind}` in {api_version}"


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        *((version, kind) for version, kinds in BUILTIN_KINDS.items() for kind in kinds),
        ("check.test/v1", "Widget"),
        ("check.test/v1", "Gadget"),
        ("cert-manager.io/v1", "certificates"),
        # Of older and newer servers.
        ("batch/v1beta1", "CronJob"),
        ("policy/v1beta1", "PodSecurityPolicy"),
        ("extensions/v1beta1", "Ingress"),
        ("resource.k8s.io/v1", "ResourceClaim"),
        ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy"),
    ],
)
def test_a_kind_that_a_server_may_have_is_none_of_them(api_version: str, kind: str) -> None:
    assert unknown_kind(api_version, kind, [WIDGET]) is None


@pytest.mark.parametrize(
    ("group", "resource", "problem"),
    [
        ("", "secret", "no resource `secret` in the core group; did you mean `secrets`?"),
        ("", "Pod/log", "no resource `Pod/log` in the core group; did you mean `pods/log`?"),
        ("apps", "Deployment", "no resource `Deployment` in apps; did you mean `deployments`?"),
        ("", "pods/log", None),
        ("", "*", None),
        ("check.test", "widget", None),
    ],
)
def test_a_permission_names_plurals(group: str, resource: str, problem: str | None) -> None:
    permission = ctrlhost.Permission(group, [resource], ["get"])
    assert list(unknown_resources(permission)) == ([] if problem is None else [problem])


class Spec(msgspec.Struct):
    size: int


class Strict(ctrlhost.ModelStatus):
    ready: int
    seen: int = 0


class View(msgspec.Struct):
    status: Strict


class Late(msgspec.Struct):
    status: Strict | None = None


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (ctrlhost.Model[Spec, Strict], ["status.ready"]),
        (ctrlhost.Model[Spec, ctrlhost.ModelStatus], []),
        (ctrlhost.Model[Spec, None], []),
        (View, ["status", "status.ready"]),
        (Late, ["status.ready"]),
        (Spec, []),
    ],
)
def test_fields_of_a_status_that_every_object_would_need(model: Any, fields: list[str]) -> None:
    assert required_status_fields(model) == fields
