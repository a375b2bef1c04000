"""Typed objects of other libraries in place of mappings: they are taken by what they offer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import ctrlhost
from ctrlhost.models.typed_objects import mapping_of
from tests.support.operators import Requests, deployment, errors, mine, operator, reasons, run_again, stored
from tests.support.waiting import eventually

pytestmark = pytest.mark.behaviour("findings3/NA28")

LABELS = {"app": "cache"}


def of_the_official_client() -> Any:
    from kubernetes import client

    container = client.V1Container(name="memcached", image="memcached:1.6", env=[client.V1EnvVar(name="A", value="1")])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=LABELS), spec=client.V1PodSpec(containers=[container])
    )
    return client.V1Deployment(
        api_version="apps/v1",
        kind="Deployment",
        metadata=client.V1ObjectMeta(name="cache"),
        spec=client.V1DeploymentSpec(
            replicas=2, selector=client.V1LabelSelector(match_labels=LABELS), template=template
        ),
    )


class OfFormerVersions:
    """As the official client's models up to version 35: `to_dict` has the names of Python, and no argument."""

    def __init__(self, attribute_map: dict[str, str], **attributes: Any) -> None:
        self.attribute_map = attribute_map
        vars(self).update(attributes)

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.attribute_map}


def of_a_former_official_client() -> Any:
    names = {"match_labels": "matchLabels", "match_expressions": "matchExpressions"}
    selector = OfFormerVersions(names, match_labels=LABELS, match_expressions=None)
    names = {name: name for name in ("replicas", "selector", "template", "strategy")}
    template = deployment()["spec"]["template"]
    spec = OfFormerVersions(names, replicas=2, selector=selector, template=template, strategy=None)
    names = {"api_version": "apiVersion"} | {name: name for name in ("kind", "metadata", "spec", "status")}
    metadata = {"name": "cache"}
    return OfFormerVersions(names, api_version="apps/v1", kind="Deployment", metadata=metadata, spec=spec, status=None)


def of_lightkube() -> Any:
    from lightkube.models.apps_v1 import DeploymentSpec
    from lightkube.models.core_v1 import Container, EnvVar, PodSpec, PodTemplateSpec
    from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
    from lightkube.resources.apps_v1 import Deployment

    container = Container(name="memcached", image="memcached:1.6", env=[EnvVar(name="A", value="1")])
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=PodSpec(containers=[container]))
    spec = DeploymentSpec(replicas=2, selector=LabelSelector(matchLabels=LABELS), template=template)
    return Deployment(metadata=ObjectMeta(name="cache"), spec=spec)


def of_kr8s() -> Any:
    from kr8s.objects import Deployment

    return Deployment(deployment(), api=object())


def of_pydantic() -> Any:
    """As the models of cloudcoil, whose fields have aliases."""
    from pydantic import BaseModel, ConfigDict, Field
    from pydantic.alias_generators import to_camel

    class Part(BaseModel):
        model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    class Selector(Part):
        match_labels: dict[str, str] | None = None
        match_expressions: list[dict[str, str]] | None = None

    class Spec(Part):
        replicas: int | None = None
        min_ready_seconds: int | None = None
        selector: Selector
        template: dict[str, Any]

    class Deployment(Part):
        api_version: str = Field(default="apps/v1", alias="apiVersion")
        kind: str = "Deployment"
        metadata: dict[str, str]
        spec: Spec
        status: dict[str, int] | None = None

    spec = Spec(replicas=2, selector=Selector(match_labels=LABELS), template=deployment()["spec"]["template"])
    return Deployment(metadata={"name": "cache"}, spec=spec, status={"replicas": 7})


def of_a_dataclass() -> Any:
    @dataclass
    class Spec:
        replicas: int
        selector: dict[str, Any]
        template: dict[str, Any]
        paused: bool | None = None

    @dataclass
    class Deployment:
        metadata: dict[str, Any]
        spec: Spec
        apiVersion: str = "apps/v1"  # noqa: N815 - the name on the wire
        kind: str = "Deployment"
        status: dict[str, Any] = field(default_factory=lambda: {"replicas": 7})

    wanted = deployment()["spec"]
    return Deployment({"name": "cache"}, Spec(2, wanted["selector"], wanted["template"]))


FORMS: list[Callable[[], Any]] = [
    of_the_official_client,
    of_a_former_official_client,
    of_lightkube,
    of_kr8s,
    of_pydantic,
    of_a_dataclass,
]


@pytest.mark.parametrize("form", ["def", "async def"])
@pytest.mark.parametrize("make", FORMS)
def test_what_is_applied_is_that_of_the_mapping(ctrlhost_host: Any, make: Callable[[], Any], form: str) -> None:
    wanted = [make()]

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ctx.ensure(wanted[0])

    async def reconcile_async(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
        await ctx.ensure(wanted[0])

    host = ctrlhost_host(operator(reconcile if form == "def" else reconcile_async))
    host.apply(mine())
    host.run_until_idle()
    applied = stored(host)
    assert errors(host) == 0
    assert reasons(host) == [("Created", "created Deployment default/cache", 1)]

    # The mapping of the same content, and the typed object once more, change nothing.
    requests = Requests(host)
    for obj in (deployment(), make()):
        wanted[0] = obj
        run_again(host)
    assert requests.new() == []
    assert stored(host) == applied
    container = applied["spec"]["template"]["spec"]["containers"][0]
    assert (applied["spec"]["replicas"], container["env"]) == (2, [{"name": "A", "value": "1"}])
    assert applied["spec"]["selector"] == {"matchLabels": LABELS}


@pytest.mark.parametrize("make", FORMS)
def test_owner_keep_and_the_objects_of_tests_may_be_typed_too(ctrlhost_host: Any, make: Callable[[], Any]) -> None:
    from kubernetes.client import V1ConfigMap, V1ObjectMeta

    pruned: list[Any] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        metadata = V1ObjectMeta(name=obj.name, namespace=obj.namespace, uid=obj.uid)
        owner = V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=metadata)
        ctx.ensure(deployment(), owner=owner, adopt=True)
        pruned.append(ctx.prune("apps/v1/Deployment", keep=[make()]))
        ctx.event("Seen", "a typed object", about=make())

    host = ctrlhost_host(operator(reconcile, ctrlhost.Owns("apps/v1/Deployment", prune=True)))
    (applied,) = host.apply(make())
    assert applied.get_path("spec", "replicas") == 2
    host.apply(mine())
    # The controller of Deployments may write in between: that run ends with Conflict, and is repeated.
    eventually(lambda: [reason for reason, *_ in reasons(host, "Seen")])
    assert pruned
    assert not any(pruned)
    (reference,) = stored(host)["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"]) == ("ConfigMap", "cache")


def test_typed_parts_of_a_mapping_and_datetimes_are_written() -> None:
    from kubernetes import client

    from ctrlhost.declarative.desired import desired_of

    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=LABELS, annotations={"a": "b"}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]),
    )
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": template}}
    assert desired_of(obj).content["spec"]["template"] == {
        "metadata": {"labels": LABELS, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


@pytest.mark.parametrize(
    ("obj", "error", "message"),
    [
        (3, TypeError, "an object must be a mapping or a model, got 3"),
        (dict, TypeError, "an object must be a mapping or a model, got <class 'dict'>"),
        (ctrlhost.ObjectMeta(name="x"), TypeError, "ObjectMeta is not a kind: put `@ctrlhost.resource"),
    ],
)
def test_what_is_no_object_is_refused(obj: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mapping_of(obj)


def test_a_typed_object_without_its_kind_is_named() -> None:
    from kubernetes.client import V1ConfigMap, V1ObjectMeta

    from ctrlhost.declarative.desired import desired_of

    with pytest.raises(ValueError, match=r"^V1ConfigMap needs apiVersion and kind$"):
        desired_of(V1ConfigMap(metadata=V1ObjectMeta(name="x")))


def test_no_library_of_typed_objects_is_imported() -> None:
    code = (
        "import sys; import ctrlhost.declarative.ensure, ctrlhost.host.host; from ctrlhost.models.typed_objects import "
        "mapping_of; from dataclasses import make_dataclass; mapping_of(make_dataclass('D', ['kind'])('x')); "
        "print({'kubernetes', 'lightkube', 'kr8s', 'pydantic', 'cloudcoil'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"
