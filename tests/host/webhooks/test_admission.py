"""Admission webhooks of a plugin that an API server calls: the sandbox, and a real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ctrlhost
from tests.support.control_plane import BINARY
from tests.support.declared import declared
from tests.support.http_client import Answer, Api
from tests.support.waiting import eventually
from tests.support.webhook_host import WebhookHost, config_map, patch_of

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

GROUP = "guarded.example.com"
WIDGETS = f"/apis/{GROUP}/v1"
#: The CRD admits more than the model of the plugin.
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            part: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            for part in ("spec", "status")
                        },
                    }
                },
            }
        ],
    },
}


class Spec(msgspec.Struct):
    size: int


@ctrlhost.resource(f"{GROUP}/v1", kind="Widget")
class Widget(ctrlhost.Model[Spec, ctrlhost.ModelStatus]):
    pass


def guard(seen: list[Any], released: threading.Event) -> Any:
    """Return a plugin with webhooks for the cases of this file, which the label `case` of an object chooses."""
    plugin = declared("guard")

    @plugin.validate(Widget, name="size")
    def size(ctx: Any, new: Widget | None, old: Widget | None) -> None:
        if new is not None and new.spec.size < 0:
            raise ctrlhost.Denied("must not be negative", field="spec.size", code=422)

    @plugin.validate(Widget, ("UPDATE",), subresource="status", name="status")
    def status(ctx: Any, new: Any, old: Any) -> None:
        seen.append(("status", ctx.request.subresource))
        if ctx.request.name == "frozen":
            raise ctrlhost.Denied("is frozen", field="status", code=403)

    @plugin.validate("v1/ConfigMap", name="first", label_selector="case=two")
    def first(ctx: Any, new: Any, old: Any) -> None:
        ctx.warn("the first warns")
        seen.append("first")
        raise ctrlhost.Denied("the first denies", code=403)

    @plugin.validate("v1/ConfigMap", name="second", label_selector="case=two")
    def second(ctx: Any, new: Any, old: Any) -> None:
        seen.append("second")
        raise ctrlhost.Denied("the second denies", code=403)

    @plugin.validate("v1/ConfigMap", name="warns", label_selector="case=warns")
    def warns(ctx: Any, new: Any, old: Any) -> None:
        ctx.warn("mind the gap")

    @plugin.mutate("v1/ConfigMap", name="zone", label_selector="case=fill")
    def zone(ctx: Any, new: dict[str, Any], old: Any) -> dict[str, Any]:
        seen.append(("zone", dict(new["data"])))
        new["data"].setdefault("zone", "west")
        return new

    @plugin.mutate("v1/ConfigMap", name="above", label_selector="case=fill")
    def above(ctx: Any, new: dict[str, Any], old: Any) -> dict[str, Any]:
        seen.append(("above", dict(new["data"])))
        return {**new, "data": {**new["data"], "sees": new["data"]["zone"]}}

    @plugin.mutate("v1/ConfigMap", name="leaves", label_selector="case=fill")
    def leaves(ctx: Any, new: dict[str, Any], old: Any) -> None:
        seen.append(("leaves", dict(new["data"])))

    def hangs(ctx: Any, new: Any, old: Any) -> None:
        released.wait(60)

    async def waits(ctx: Any, new: Any, old: Any) -> None:
        await asyncio.sleep(60)

    for policy in ("Fail", "Ignore"):
        for function in (hangs, waits):
            name = f"{function.__name__}-{policy.lower()}"
            plugin.validate(
                "v1/ConfigMap", name=name, label_selector=f"case={name}", timeout="1s", failure_policy=policy
            )(function)

    @plugin.validate("v1/ConfigMap", name="raises", label_selector="case=raises")
    def raises(ctx: Any, new: Any, old: Any) -> None:
        raise RuntimeError("secret of the plugin")

    @plugin.validate("v1/ConfigMap", name="nonsense", label_selector="case=nonsense")
    def nonsense(ctx: Any, new: Any, old: Any) -> Any:
        return 42

    @plugin.mutate("v1/ConfigMap", name="other-type", label_selector="case=other-type")
    def other_type(ctx: Any, new: Any, old: Any) -> Any:
        return "a text"

    @plugin.validate("v1/ConfigMap", name="dry", label_selector="case=dry")
    def dry(ctx: Any, new: Any, old: Any) -> None:
        seen.append(("dry", ctx.request.dry_run))

    return plugin


@pytest.fixture(scope="module")
def seen() -> list[Any]:
    """Return what the webhooks have noted."""
    return []


@pytest.fixture(scope="module")
def host(serve: Callable[..., WebhookHost], server: ControlPlane, seen: list[Any]) -> Iterator[WebhookHost]:
    released = threading.Event()
    server.client.apply(CRD)
    host = serve(guard(seen, released))
    eventually(lambda: host.api.get(host.path("widgets", group=WIDGETS)).status == 200)
    yield host
    released.set()


@pytest.fixture(autouse=True)
def nothing_seen(seen: list[Any]) -> None:
    seen.clear()


def case(name: str, *, called: str = "", **data: str) -> dict[str, Any]:
    return config_map(called or name, {"case": name}, **(data or {"a": "1"}))


def widget(name: str, size: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}}


@pytest.fixture
def kubectl(host: WebhookHost, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs kubectl with an object as a file, in the namespace of the host."""

    def run(verb: str, obj: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "object.json"
        file.write_text(json.dumps(obj))
        words = [BINARY, "kubectl", verb, f"--kubeconfig={host.server.kubeconfig}", f"--namespace={host.namespace}"]
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        return subprocess.run([*words, f"--filename={file}", *options], env=environment, capture_output=True, text=True)

    return run


def official(host: WebhookHost, obj: dict[str, Any]) -> str:
    """Create a widget with the official client, and return the message of the failure."""
    from kubernetes import client, config

    api = client.CustomObjectsApi(config.new_client_from_config(str(host.server.kubeconfig)))
    with pytest.raises(client.ApiException) as failure:
        api.create_namespaced_custom_object(GROUP, "v1", host.namespace, "widgets", obj)
    assert failure.value.status == 422
    message: str = json.loads(failure.value.body)["message"]
    return message


DENIAL = 'admission webhook "size.guard.ctrlhost.dev" denied the request: spec.size: must not be negative'
STATUS_DENIAL = 'admission webhook "status.guard.ctrlhost.dev" denied the request: status: is frozen'


@pytest.mark.behaviour("webhooks/WH1")
def test_a_validator_denies_a_creation_and_an_update(host: WebhookHost) -> None:
    widgets = host.path("widgets", group=WIDGETS)
    denied = host.api.post(widgets, widget("new", -1)).fails(422, "Invalid", "spec.size", "FieldValueInvalid")
    assert denied["message"] == DENIAL
    assert [cause["message"] for cause in denied["details"]["causes"]] == ["must not be negative"]
    assert official(host, widget("new", -1)) == DENIAL
    assert host.api.get(f"{widgets}/new").status == 404
    stored = host.api.post(widgets, widget("old", 1)).expect(201)
    for answer in (
        host.api.put(f"{widgets}/old", {**stored, "spec": {"size": -1}}),
        host.api.patch(f"{widgets}/old", {"spec": {"size": -1}}),
        host.api.apply(f"{widgets}/old", widget("old", -1), "test", force="true"),
    ):
        assert answer.fails(422, "Invalid", "spec.size")["message"] == DENIAL
    assert host.api.get(f"{widgets}/old").expect(200)["spec"] == stored["spec"]


@pytest.mark.behaviour("webhooks/WH1")
def test_a_change_of_the_status_is_asked_about_only_where_it_is_declared(host: WebhookHost, seen: list[Any]) -> None:
    widgets = host.path("widgets", group=WIDGETS)
    change = {"status": {"phase": "Done"}}
    for name in ("plain", "frozen"):
        host.api.post(widgets, widget(name, 1)).expect(201)
    # The webhook for the object itself would refuse it, since a status patch cannot change the spec.
    assert host.api.patch(f"{widgets}/plain/status", change).expect(200)["status"] == change["status"]
    assert seen == [("status", "status")]
    denied = host.api.patch(f"{widgets}/frozen/status", change)
    assert denied.fails(403, "Forbidden", "status")["message"] == STATUS_DENIAL
    assert "status" not in host.api.get(f"{widgets}/frozen").expect(200)


@pytest.mark.behaviour("webhooks/WH1")
@pytest.mark.behaviour("webhooks/WH2")
@pytest.mark.behaviour("webhooks/WH8")
@pytest.mark.real
def test_kubectl_shows_denials_and_warnings(
    host: WebhookHost, kubectl: Callable[..., subprocess.CompletedProcess[str]], seen: list[Any]
) -> None:
    denied = kubectl("create", widget("by-kubectl", -1))
    assert denied.returncode != 0
    # Of an invalid object kubectl prints the causes in place of the message.
    assert denied.stderr == 'The Widget "by-kubectl" is invalid: spec.size: must not be negative\n'
    created = kubectl("create", case("warns", called="warned"))
    assert created.returncode == 0, created.stderr
    assert "Warning: mind the gap" in created.stderr
    tried = kubectl("create", case("dry", called="by-kubectl"), "--dry-run=server")
    assert tried.returncode == 0, tried.stderr
    assert seen == [("dry", True)]
    assert host.api.get(host.path("configmaps", "by-kubectl")).status == 404


@pytest.mark.behaviour("webhooks/WH2")
def test_of_two_denials_the_answer_has_one(host: WebhookHost, seen: list[Any]) -> None:
    """kube-apiserver calls all validators, and answers with the first of those that deny."""
    answer = host.api.post(host.path("configmaps"), case("two"))
    message = answer.fails(403, "Forbidden")["message"]
    assert sorted(seen) == ["first", "second"]
    denials = {
        f'admission webhook "{name}.guard.ctrlhost.dev" denied the request: the {name} denies'
        for name in ("first", "second")
    }
    assert message in denials
    warned = host.api.post(host.path("configmaps"), case("warns"))
    warned.expect(201)
    assert warned.warnings == ['299 - "mind the gap"']


@pytest.mark.behaviour("webhooks/WH3")
def test_mutators_are_called_in_order_and_the_patch_is_the_smallest(host: WebhookHost, seen: list[Any]) -> None:
    stored = host.api.post(host.path("configmaps"), case("fill", keep="me")).expect(201)
    assert stored["data"] == {"keep": "me", "zone": "west", "sees": "west"}
    with_zone = {"keep": "me", "zone": "west"}
    # The first one is called again, since another one has changed the object after it.
    assert seen[:3] == [("zone", {"keep": "me"}), ("above", with_zone), ("leaves", {**with_zone, "sees": "west"})]
    patches = {
        "zone": [{"op": "add", "path": "/data/zone", "value": "west"}],
        "above": [{"op": "add", "path": "/data/sees", "value": "west"}],
    }
    if host.server.kind == "kube-apiserver":
        assert dict(eventually(lambda: audited_patches(host, "fill"))) == patches
    objects = {"zone": {"keep": "me"}, "above": with_zone, "leaves": with_zone}
    for name, data in objects.items():
        response = host.listener.review(f"/mutate/guard/{name}", case("fill", **data))
        assert (response["allowed"], patch_of(response)) == (True, patches.get(name, []))


def audited_patches(host: WebhookHost, name: str) -> list[tuple[str, Any]]:
    """Return the patches of a creation in the audit log, by the name of the mutator."""
    server: Any = host.server
    events = [event for event in server.audited() if event["objectRef"].get("namespace") == host.namespace]
    annotations = [
        json.loads(value)
        for event in events
        if event["verb"] == "create" and event["responseStatus"]["code"] == 201 and event["objectRef"]["name"] == name
        for key, value in event["annotations"].items()
        if key.startswith("patch.webhook.admission.k8s.io/")
    ]
    return [(patch["webhook"].partition(".")[0], patch["patch"]) for patch in annotations]


@pytest.mark.behaviour("webhooks/WH5")
@pytest.mark.parametrize("function", ["hangs", "waits"])
@pytest.mark.parametrize(("policy", "code"), [("fail", 500), ("ignore", 201)])
def test_the_failure_policy_decides_about_what_takes_too_long(
    host: WebhookHost, function: str, policy: str, code: int
) -> None:
    name = f"{function}-{policy}"
    answer = host.api.post(host.path("configmaps"), case(name))
    assert answer.status == code, answer.body
    if policy == "fail":
        message = answer.json()["message"]
        assert f'failed calling webhook "{name}.guard.ctrlhost.dev": failed to call webhook: ' in message
        # What a client of Kubernetes says of a 504; the host has answered in time.
        assert "the server was unable to return a response in the time allotted" in message
    code_of_the_host = f'controller_runtime_webhook_requests_total{{code="504",webhook="/validate/guard/{name}"}} 1.0'
    assert code_of_the_host in host.get("/metrics")[1]


@pytest.mark.behaviour("webhooks/WH6")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raises", "plugin guard: webhook function raises failed; the log of the host has more"),
        ("nonsense", "plugin guard: webhook function nonsense returned int; it must return None"),
        ("other-type", "plugin guard: webhook function other_type returned str; it must return the object"),
    ],
)
def test_a_function_that_fails_is_an_internal_error_that_names_it(
    host: WebhookHost, caplog: pytest.LogCaptureFixture, name: str, says: str
) -> None:
    message = host.api.post(host.path("configmaps"), case(name)).fails(500, "InternalError")["message"]
    assert f'failed calling webhook "{name}.guard.ctrlhost.dev"' in message
    assert says in message
    assert "secret" not in message
    assert "Traceback" not in message
    (record,) = [record for record in caplog.records if says in record.getMessage()]
    assert (record.exc_info is not None) is (name == "raises")
    assert "secret of the plugin" in caplog.text or name != "raises"


@pytest.mark.behaviour("webhooks/WH6")
def test_an_object_that_does_not_fit_the_model_is_denied_with_its_path(host: WebhookHost) -> None:
    answer = host.api.post(host.path("widgets", group=WIDGETS), widget("unfit", "large"))
    message = answer.fails(422, "Invalid", "spec.size")["message"]
    assert message == (
        'admission webhook "size.guard.ctrlhost.dev" denied the request: spec.size: expected int, got str'
    )


@pytest.mark.behaviour("webhooks/WH8")
def test_a_dry_run_is_seen_and_writes_nothing(host: WebhookHost, seen: list[Any]) -> None:
    answer: Answer = host.api.post(host.path("configmaps"), case("dry"), dryRun="All")
    answer.expect(201)
    assert host.api.get(host.path("configmaps", "dry")).status == 404
    host.api.post(host.path("configmaps"), case("dry")).expect(201)
    assert seen == [("dry", True), ("dry", False)]


def test_what_a_host_counts_is_in_its_metrics_on_its_page_and_in_its_status(host: WebhookHost) -> None:
    path = "/validate/guard/warns"
    before = row_of(host, path)
    assert host.listener.review(path, case("warns"))["allowed"] is True
    after = row_of(host, path)
    assert after["total"] == before["total"] + 1
    assert (after["plugin"], after["timeout_seconds"], after["in_flight"], after["overdue"]) == ("guard", 5.0, 0, 0)
    assert 0 < after["p50"] <= after["p99"]
    denied = "/validate/guard/first"
    before = row_of(host, denied)
    assert host.listener.review(denied, case("two"))["allowed"] is False
    after = row_of(host, denied)
    assert (after["denied"], after["errors"]) == (before["denied"] + 1, before["errors"])
    text = host.get("/metrics")[1]
    for line in (
        f'ctrlhost_webhook_denied_total{{plugin="guard",webhook="{denied}"}} {after["denied"]:.1f}',
        f'controller_runtime_webhook_latency_seconds_count{{webhook="{denied}"}} {after["total"]:.1f}',
        f'ctrlhost_webhook_timeout_seconds{{plugin="guard",webhook="{denied}"}} 5.0',
    ):
        assert line in text
    browser = Api(f"http://{host.host.address}")
    for page in ("/", "/status/plugins/guard"):
        shown = browser.get(page, accept="text/html").body.decode()
        assert 'id="wh-/validate/guard/first"' in shown
    assert (
        'id="wh-/validate/guard/first"' not in browser.get("/status/plugins/marker", accept="text/html").body.decode()
    )


def row_of(host: WebhookHost, path: str) -> dict[str, Any]:
    (row,) = [row for row in json.loads(host.get("/api/v1/status")[1])["webhooks"] if row["path"] == path]
    return row
