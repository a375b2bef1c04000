"""What the model and the CRD of a kind say of its status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ctrlhost.controller.status_shape import StatusShape, shape_of
from ctrlhost.errors import PluginError, PluginLoadError


class Status(msgspec.Struct):
    observedGeneration: int | None = None  # noqa: N815
    from_: str = msgspec.field(default="", name="from")


class WithStatus(msgspec.Struct):
    status: Status | None = None


class Plain(msgspec.Struct):
    status: dict[str, Any] = {}


class WithoutStatus(msgspec.Struct):
    status: None = None


class OnlySpec(msgspec.Struct):
    spec: dict[str, Any] = {}


def crd(subresource: bool = True, status: Any = None, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"status": {"type": "object", **(status or {})}}, **more}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    if subresource:
        version["subresources"] = {"status": {}}
    return {"spec": {"group": "example.com", "names": {"kind": "Thing"}, "versions": [{"name": "v0"}, version]}}


OTHER = {"spec": {"group": "example.com", "names": {"kind": "Other"}, "versions": []}}
OBSERVED = {"properties": {"observedGeneration": {"type": "integer"}}}
#: In a schema: the server keeps what it does not name.
KEEPS = {"x-kubernetes-preserve-unknown-fields": True}
FIELDS = {"observedGeneration": "observedGeneration", "from_": "from"}


@pytest.mark.parametrize(
    ("model", "crds", "fields", "observed", "subresource"),
    [
        (None, [], None, False, None),
        (None, [OTHER, crd()], None, False, True),
        (None, [crd(status=OBSERVED)], None, True, True),
        (None, [crd(subresource=False)], None, False, False),
        (OnlySpec, [], None, False, None),
        (Plain, [], None, False, None),
        (WithoutStatus, [], None, False, False),
        (WithoutStatus, [crd(subresource=False)], None, False, False),
        (WithStatus, [], FIELDS, True, None),
        (WithStatus, [crd(status=OBSERVED)], FIELDS, True, True),
        # The server would drop the field: the CRD counts.
        (WithStatus, [crd()], FIELDS, False, True),
        (WithStatus, [crd(**KEEPS)], FIELDS, False, True),
    ],
)
def test_the_shape_follows_from_model_and_crd(
    model: Any, crds: list[Any], fields: Any, observed: bool, subresource: bool | None
) -> None:
    # What the plugin's own CRD has, the plugin writes.
    more = {"declared": bool(subresource), "without": model is WithoutStatus, "conditions": not crds}
    wanted = StatusShape("demo", "Thing", fields, observed, subresource, **more)
    assert shape_of("demo", "example.com/v1", "Thing", model, crds) == wanted


@pytest.mark.parametrize(("model", "observed"), [(WithStatus, True), (Plain, False), (None, False)])
@pytest.mark.parametrize("status", [KEEPS, {"additionalProperties": {}}])
def test_a_schema_that_keeps_any_field_leaves_it_to_the_model(model: Any, observed: bool, status: Any) -> None:
    shape = shape_of("demo", "example.com/v1", "Thing", model, [crd(status=status)])
    assert (shape.observed_generation, shape.conditions) == (observed, True)


def test_another_version_of_the_crd_says_nothing() -> None:
    assert shape_of("demo", "example.com/v2", "Thing", None, [crd()]).subresource is None


def test_a_model_with_a_status_needs_the_subresource_in_its_crd() -> None:
    with pytest.raises(
        PluginLoadError, match=r"Thing \(example.com/v1\): its model has a status, but its CRD"
    ) as raised:
        shape_of("demo", "example.com/v1", "Thing", WithStatus, [crd(subresource=False)])
    assert "subresources: {status: {}}" in (raised.value.hint or "")


@pytest.mark.parametrize("crds", [[], [crd(subresource=False)]], ids=["no CRD", "CRD"])
def test_a_model_without_status_needs_one_to_write_it(crds: list[Any]) -> None:
    shape = shape_of("demo", "example.com/v1", "Thing", WithoutStatus, crds)
    for check in (shape.check, shape.check_conditions):
        with pytest.raises(PluginError, match=r"the model of Thing has no status, which ctx\.status writes") as raised:
            check()
        assert raised.value.hint == "derive it from `ctrlhost.Model[Spec, Status]`"


@pytest.mark.parametrize("model", [None, Plain, WithStatus])
def test_conditions_need_a_field_in_the_crd(model: Any) -> None:
    shape = shape_of("demo", "example.com/v1", "Thing", model, [crd()])
    shape.check()
    with pytest.raises(
        PluginError, match=r"the status of Thing has no field `conditions`, which ctx\.status"
    ) as raised:
        shape.check_conditions()
    assert (raised.value.hint or "").startswith("make it a `ctrlhost.ModelStatus`")


@pytest.mark.parametrize(
    "crds",
    [
        [],
        [crd(status={"properties": {"conditions": {"type": "array"}}})],
        [crd(status=KEEPS)],
        [crd(status={"additionalProperties": {}})],
    ],
    ids=["of another", "named", "preserved", "any"],
)
def test_conditions_are_written_where_the_server_may_keep_them(crds: list[Any]) -> None:
    shape_of("demo", "example.com/v1", "Thing", WithStatus, crds).check_conditions()
