"""The names that an API server accepts in a CustomResourceDefinition, before the naming controller decides."""

from __future__ import annotations

import base64
import functools
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost import Client, Conflict, Invalid, TooManyRequests
from tests.support.ca_bundles import BUNDLES
from tests.support.waiting import eventually, eventually_equal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.control_plane import ControlPlane, KubeApiserver

behaviour = pytest.mark.behaviour

API, KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
BAD = "()*"
LIMIT = 60.0
_groups = itertools.count(1)


class Definitions:
    """CRDs in the test's own group."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.group = f"taken{next(_groups)}.example.com"

    def crd(self, *, name: str | None = None, group: str | None = None, **names: Any) -> dict[str, Any]:
        wanted = {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList", **names}
        group = group or self.group
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        return {
            "apiVersion": API,
            "kind": KIND,
            "metadata": {"name": name or f"{wanted['plural']}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {key: value for key, value in wanted.items() if value is not None},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }

    def create(self, **names: Any) -> dict[str, Any]:
        return self.client.create(self.crd(**names))

    def refused(self, write: Callable[[], Any]) -> list[str]:
        """Return the fields that the server rejects."""
        with pytest.raises(Invalid) as caught:
            write()
        return sorted({str(cause.get("field")) for cause in caught.value.causes})

    def patch(self, plural: str, patch: dict[str, Any], subresource: str | None = None) -> dict[str, Any]:
        """Patch, with retries on conflicts with the server's controllers and while its storage restarts."""

        def patched() -> dict[str, Any] | None:
            try:
                return self.client.patch(API, KIND, f"{plural}.{self.group}", None, patch, subresource=subresource)
            except (Conflict, TooManyRequests):
                return None

        written: dict[str, Any] = eventually(patched, LIMIT, f"a patch of {plural}")
        return written

    def wait_for(self, plural: str, type_: str, status: str) -> None:
        def has_it() -> bool:
            conditions = self.client.get(API, KIND, f"{plural}.{self.group}")["status"].get("conditions") or ()
            return any(condition["type"] == type_ and condition["status"] == status for condition in conditions)

        eventually(has_it, LIMIT, f"{type_} of {plural} is {status}")


@pytest.fixture
def definitions(control_plane: ControlPlane) -> Iterator[Definitions]:
    """Return the test's own group on each server; its CRDs are deleted afterwards."""
    created = Definitions(control_plane.client)
    yield created
    for crd in list(created.client.list(API, KIND)):
        if crd["spec"]["group"] == created.group:
            created.client.delete(API, KIND, crd["metadata"]["name"])


@behaviour("naming/V1")
@pytest.mark.parametrize("field", ["plural", "singular", "kind", "listKind"])
def test_names_with_odd_characters_are_refused_in_spec_and_status(definitions: Definitions, field: str) -> None:
    assert f"spec.names.{field}" in definitions.refused(lambda: definitions.create(**{field: BAD}))
    names = definitions.create()["spec"]["names"]
    wrong = {"status": {"acceptedNames": {**names, field: BAD}}}
    assert f"status.acceptedNames.{field}" in definitions.refused(lambda: definitions.patch("as", wrong, "status"))


@behaviour("naming/V2")
def test_kind_and_list_kind_differ_in_spec_and_status(definitions: Definitions) -> None:
    assert "spec.names.listKind" in definitions.refused(lambda: definitions.create(listKind="A"))
    names = definitions.create()["spec"]["names"]
    wrong = {"status": {"acceptedNames": {**names, "listKind": "A"}}}
    assert "status.acceptedNames.listKind" in definitions.refused(lambda: definitions.patch("as", wrong, "status"))


@behaviour("naming/V3")
def test_plural_and_kind_are_required_in_spec_and_may_be_empty_in_status(definitions: Definitions) -> None:
    missing_plural = definitions.crd(name=f"as.{definitions.group}", plural="")
    assert "spec.names.plural" in definitions.refused(lambda: definitions.client.create(missing_plural))
    without_kind = definitions.refused(lambda: definitions.create(kind="", listKind=None, singular=None))
    assert {"spec.names.kind", "spec.names.singular", "spec.names.listKind"} <= set(without_kind)
    names = definitions.create(singular=None, listKind=None)["spec"]["names"]
    assert (names["singular"], names["listKind"]) == ("a", "AList")
    definitions.wait_for("as", "NamesAccepted", "True")
    empty = {"plural": "", "singular": None, "kind": "", "listKind": None}
    answer = definitions.patch("as", {"status": {"acceptedNames": empty}}, "status")
    accepted = answer["status"]["acceptedNames"]
    assert [accepted.get(field) or "" for field in ("plural", "singular", "kind", "listKind")] == [""] * 4


@behaviour("naming/V4")
@behaviour("naming/V5")
def test_the_object_is_named_after_plural_and_group_and_the_group_has_a_dot(definitions: Definitions) -> None:
    assert "metadata.name" in definitions.refused(lambda: definitions.create(name=f"others.{definitions.group}"))
    assert "spec.group" in definitions.refused(lambda: definitions.create(group="dotless"))


@behaviour("naming/V6")
@behaviour("naming/V7")
def test_plural_group_kind_and_scope_of_an_established_crd_cannot_change(definitions: Definitions) -> None:
    definitions.create()
    definitions.wait_for("as", "Established", "True")
    changes: list[tuple[dict[str, Any], str]] = [
        ({"names": {"plural": "others"}}, "spec.names.plural"),
        ({"group": "other.example.com"}, "spec.group"),
        ({"names": {"kind": "Other"}}, "spec.names.kind"),
        ({"scope": "Cluster"}, "spec.scope"),
    ]
    for change, field in changes:
        assert field in definitions.refused(functools.partial(definitions.patch, "as", {"spec": change}))


@behaviour("naming/V7")
def test_kind_and_scope_of_a_crd_that_waits_for_its_names_may_change(definitions: Definitions) -> None:
    definitions.create()
    definitions.wait_for("as", "NamesAccepted", "True")
    definitions.create(plural="bs", singular="b", kind="A", listKind="BList")
    definitions.wait_for("bs", "NamesAccepted", "False")
    assert definitions.patch("bs", {"spec": {"scope": "Cluster"}})["spec"]["scope"] == "Cluster"
    definitions.patch("bs", {"spec": {"names": {"kind": "B"}}})
    definitions.wait_for("bs", "NamesAccepted", "True")


@behaviour("naming/V8")
@behaviour("naming/V10")
@behaviour("naming/V11")
@pytest.mark.parametrize(
    ("names", "field"),
    [
        ({"shortNames": ["X"]}, "spec.names.shortNames[0]"),
        ({"plural": "a" * 64}, "spec.names.plural"),
        ({"plural": "1as"}, "spec.names.plural"),
    ],
)
def test_names_of_resources_are_lower_case_labels(definitions: Definitions, names: dict[str, Any], field: str) -> None:
    assert field in definitions.refused(lambda: definitions.create(**names))


@behaviour("naming/V9")
@behaviour("naming/V10")
def test_short_names_may_repeat_and_labels_may_have_63_characters(definitions: Definitions) -> None:
    crd = definitions.create(plural="a" * 63, shortNames=["x", "x"])
    assert crd["spec"]["names"]["shortNames"] == ["x", "x"]


@behaviour("naming/I3", "naming/I4", "naming/I5")
def test_the_bundles_of_the_plugin_s_tests_are_judged_alike_by_kube_apiserver(kube_apiserver: KubeApiserver) -> None:
    definitions = Definitions(kube_apiserver.client)
    wanted: dict[str, str] = {}
    for number, (bundle, accepts) in enumerate([(b"", True), *BUNDLES.values()]):
        crd = definitions.crd(plural=f"p{number}s", singular=f"p{number}", kind=f"P{number}", listKind=f"P{number}List")
        client = {"service": {"name": "w", "namespace": "n"}}
        if bundle:
            client["caBundle"] = base64.b64encode(bundle).decode()
        hook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
        crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}
        definitions.client.create(crd)
        wanted[crd["metadata"]["name"]] = "InitialNamesAccepted" if accepts else "InvalidCABundle"

    def reasons() -> dict[str, str]:
        return {
            crd["metadata"]["name"]: condition["reason"]
            for crd in definitions.client.list(API, KIND)
            for condition in crd["status"].get("conditions") or ()
            if crd["spec"]["group"] == definitions.group and condition["type"] == "Established"
        }

    eventually_equal(reasons, wanted)
    for name in wanted:
        definitions.client.delete(API, KIND, name)


@behaviour("naming/I2")
def test_the_status_is_read_and_patched_separately(definitions: Definitions, control_plane: ControlPlane) -> None:
    definitions.create()
    definitions.wait_for("as", "Established", "True")
    path = f"/apis/{API}/customresourcedefinitions/as.{definitions.group}/status"
    assert control_plane.client.transport.request("GET", path).status == 200
    condition = {
        "type": "Noted",
        "status": "True",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    conditions = definitions.client.get(API, KIND, f"as.{definitions.group}")["status"]["conditions"]
    answer = definitions.patch("as", {"status": {"conditions": [*conditions, condition]}}, "status")
    assert answer["status"]["conditions"][-1]["type"] == "Noted"
