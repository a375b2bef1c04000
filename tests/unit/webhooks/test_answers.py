"""Answers to admission reviews."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.controller.context import bound_values
from ctrlhost.webhooks import review
from ctrlhost.webhooks.envelope import InvalidReview
from ctrlhost.webhooks.review import WebhookFailed
from tests.unit.webhooks.reviews import answer, host_of, patch, request

behaviour = pytest.mark.behaviour


class Port(msgspec.Struct, frozen=True):
    name: str
    number: int = 80


class Spec(msgspec.Struct, frozen=True):
    size: int = 1
    owner: str = ""
    ports: Annotated[list[Port], ctrlhost.ListMap("name")] = []


@ctrlhost.resource("example.com/v1")
class Cache(ctrlhost.Model[Spec, None]):
    pass


CACHE: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Cache",
    "metadata": {"name": "web", "namespace": "shop", "uid": "7"},
    "spec": {"size": 2},
}
CONFIG: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}, "data": {}}


def sized(size: object) -> dict[str, Any]:
    return {**CACHE, "spec": {"size": size}}


def replaced(obj: Cache, **fields: Any) -> Cache:
    return msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, **fields))


def test_a_validator_gets_typed_objects_and_the_request() -> None:
    plugin = ctrlhost.Plugin()
    calls = []

    @plugin.validate(Cache, "*")
    def check(ctx: ctrlhost.Admission[Cache], new: Cache | None, old: Cache | None) -> None:
        calls.append((ctx.request, new and new.spec.size, old and old.spec.size, ctx.settings, ctx.state))
        assert bound_values() == {"webhook": "/validate/demo/check", "uid": "42"}
        assert ctx.log.name == "ctrlhost.plugin.demo"
        ctx.warn("large\n  one")
        ctx.warn("large one")

    host = host_of(plugin, settings="settings", state="state")
    assert answer(host, request(sized(3))) == {"uid": "42", "allowed": True, "warnings": ["large one"]}
    answer(host, request(sized(3), sized(2)))
    answer(host, request(None, sized(2), dryRun=True, subResource="status"))
    assert [call[1:3] for call in calls] == [(3, None), (3, 2), (None, 2)]
    assert calls[0][3:] == ("settings", "state")
    shown = calls[2][0]
    assert (shown.uid, shown.operation, shown.name, shown.namespace) == ("42", "DELETE", "web", "shop")
    assert (shown.user, shown.groups, shown.dry_run, shown.subresource) == ("ann", ("admins",), True, "status")
    assert calls[0][0].dry_run is False
    assert shown.options == {"kind": "CreateOptions"}


def test_the_function_of_a_kind_without_a_model_gets_dicts_also_without_a_name() -> None:
    plugin = ctrlhost.Plugin()

    @plugin.mutate("v1/ConfigMap")
    async def fill(ctx: ctrlhost.Admission[dict[str, Any]], new: dict[str, Any], old: Any) -> dict[str, Any]:
        assert (type(new), old, ctx.request.name) == (dict, None, "")
        new["data"]["a/b"] = "1"
        return new

    operations = patch(answer(host_of(plugin), request(CONFIG)))
    assert operations == [{"op": "add", "path": "/data/a~1b", "value": "1"}]


@pytest.mark.parametrize(
    ("denial", "status"),
    [
        (
            ctrlhost.Denied("9 at most", field="spec.size"),
            {
                "code": 422,
                "reason": "Invalid",
                "message": "spec.size: 9 at most",
                "details": {
                    "name": "web",
                    "group": "example.com",
                    "kind": "Cache",
                    "causes": [{"reason": "FieldValueInvalid", "message": "9 at most", "field": "spec.size"}],
                },
            },
        ),
        (ctrlhost.Denied("not today", code=403), {"code": 403, "reason": "Forbidden", "message": "not today"}),
        (ctrlhost.Denied("later", code=503), {"code": 503, "reason": "InternalError", "message": "later"}),
        (ctrlhost.Denied("tea", code=418), {"code": 418, "message": "tea"}),
    ],
)
@pytest.mark.parametrize("decorator", ["validate", "mutate"])
def test_a_denial_has_code_message_and_field(decorator: str, denial: ctrlhost.Denied, status: dict[str, Any]) -> None:
    plugin = ctrlhost.Plugin()

    @getattr(plugin, decorator)(Cache)
    def refuse(ctx: Any, new: Any, old: Any) -> None:
        ctx.warn("careful")
        raise denial

    response = answer(host_of(plugin), request(CACHE))
    expected = {"status": "Failure", **status}
    assert response == {"uid": "42", "allowed": False, "status": expected, "warnings": ["careful"]}


@pytest.mark.parametrize("code", [100, 200, 999, 422.0, "422", None])
def test_a_denial_has_an_http_status(code: Any) -> None:
    with pytest.raises(ValueError, match=f"from 400 to 599, got {code!r}"):
        ctrlhost.Denied("no", code=code)


def test_the_parts_of_a_denial_are_texts() -> None:
    plugin = ctrlhost.Plugin()

    @plugin.validate(Cache)
    def refuse(ctx: Any, new: Any, old: Any) -> None:
        raise ctrlhost.Denied(ValueError("too small"), field=7)  # type: ignore[arg-type]

    status = answer(host_of(plugin), request(CACHE))["status"]
    assert (status["message"], status["details"]["causes"][0]["field"]) == ("7: too small", "7")
    assert ctrlhost.Denied("no", field=None).full_message == "no"  # type: ignore[arg-type]


def test_a_warning_is_one_line_that_a_header_can_have() -> None:
    plugin = ctrlhost.Plugin()
    plugin.validate(Cache, name="check")(lambda ctx, new, old: ctx.warn("größer\nals\x00\x7f\u2028 \ud800 9"))
    assert answer(host_of(plugin), request(CACHE))["warnings"] == ["größer als 9"]


@behaviour("webhooks/WH6")
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("decorator", ["validate", "mutate"])
@pytest.mark.parametrize("error", [KeyError("secret"), SystemExit(3), StopIteration()])
def test_a_function_that_raises_fails_with_plugin_and_function(
    decorator: str, error: BaseException, awaited: bool
) -> None:
    plugin = ctrlhost.Plugin()

    def fails(ctx: Any, new: Any, old: Any) -> None:
        raise error

    async def fails_later(ctx: Any, new: Any, old: Any) -> None:
        raise error

    getattr(plugin, decorator)(Cache)(fails_later if awaited else fails)
    with pytest.raises(WebhookFailed) as raised:
        answer(host_of(plugin), request(CACHE))
    name = "fails_later" if awaited else "fails"
    assert raised.value.message == f"plugin demo: webhook function {name} failed; the log of the host has more"
    # Python turns the last one into a RuntimeError in a coroutine.
    assert raised.value.__cause__ is error or isinstance(raised.value.__cause__, RuntimeError)


@behaviour("webhooks/WH6")
@pytest.mark.parametrize(
    ("decorator", "returned", "problem"),
    [
        ("validate", True, "returned bool; it must return None or raise ctrlhost.Denied"),
        ("validate", CACHE, "returned dict; it must return None or raise ctrlhost.Denied"),
        ("mutate", "text", "returned str; it must return the object or None"),
        ("mutate", Spec(), "returned Spec; it must return the object or None"),
        ("mutate", CONFIG, "returned an object of another kind"),
        ("mutate", {"spec": {}}, "returned an object of another kind"),
        ("mutate", {**CACHE, "spec": object()}, "returned what is no JSON: "),
        ("mutate", {**CACHE, "spec": {"owner": "\ud800"}}, "returned what is no JSON: "),
        (
            "mutate",
            Cache(metadata=ctrlhost.ObjectMeta(name="web"), spec=Spec(owner="\ud800")),
            "has an answer that is no",
        ),
        ("mutate", {"apiVersion": "example.com/v1", "kind": "Cache"}, "returned an object without metadata"),
    ],
)
def test_another_result_fails(decorator: str, returned: Any, problem: str) -> None:
    plugin = ctrlhost.Plugin()

    @getattr(plugin, decorator)(Cache)
    def returns(ctx: Any, new: Any, old: Any) -> Any:
        return returned

    with pytest.raises(WebhookFailed, match=f"^plugin demo: webhook function returns {problem}"):
        answer(host_of(plugin), request(CACHE))


@behaviour("webhooks/WH6")
def test_an_object_that_does_not_fit_is_denied_with_its_path_or_left_alone_with_a_warning() -> None:
    plugin = ctrlhost.Plugin()
    calls = []
    for decorate in (plugin.validate(Cache, "*", name="check"), plugin.mutate(Cache, name="fill")):
        decorate(lambda ctx, new, old: calls.append((new, old)))
    host = host_of(plugin)
    response = answer(host, request(sized("many")))
    assert response["status"]["message"] == "spec.size: expected int, got str"
    assert response["status"]["details"]["causes"][0]["field"] == "spec.size"
    response = answer(host, request(sized("many")), 1)
    problem = "/mutate/demo/fill left the object alone, which does not fit: spec.size: expected int, got str"
    assert response == {"uid": "42", "allowed": True, "warnings": [problem]}
    assert calls == []
    # What is stored may be mended and deleted.
    warning = ["the stored object does not fit the model: spec.size: expected int, got str"]
    assert answer(host, request(None, sized("many"))) == {"uid": "42", "allowed": True, "warnings": warning}
    assert answer(host, request(sized(2), sized("many")))["warnings"] == warning
    assert [(new.spec.size, old) for new, old in calls] == [(2, None)]
    problem = (
        "/mutate/demo/fill left the object alone: the stored object does not fit: spec.size: expected int, got str"
    )
    assert answer(host, request(sized(2), sized("many")), 1)["warnings"] == [problem]


def test_the_patch_of_a_struct_is_the_smallest_and_keeps_what_the_struct_does_not_declare() -> None:
    plugin = ctrlhost.Plugin()

    @plugin.mutate(Cache)
    def fill(ctx: Any, new: Cache, old: Any) -> Cache:
        ports = [Port("http", 8080) if port.name == "http" else port for port in new.spec.ports]
        return replaced(new, owner="ann", ports=[*ports, Port("admin")])

    spec = {
        "size": 2,
        "future": {"x": 1},
        "ports": [{"name": "http", "number": 80, "tls": True}, {"name": "https", "number": 443}],
    }
    operations = patch(answer(host_of(plugin), request({**CACHE, "spec": spec})))
    assert operations == [
        {"op": "replace", "path": "/spec/ports/0/number", "value": 8080},
        {"op": "add", "path": "/spec/ports/-", "value": {"name": "admin", "number": 80}},
        {"op": "add", "path": "/spec/owner", "value": "ann"},
    ]


def test_none_and_an_unchanged_object_leave_the_object() -> None:
    plugin = ctrlhost.Plugin()
    results = iter([None, "same", "mapping"])

    @plugin.mutate(Cache)
    def fill(ctx: Any, new: Cache, old: Any) -> Any:
        result = next(results)
        return CACHE if result == "mapping" else new if result else None

    host = host_of(plugin)
    for _ in range(3):
        assert answer(host, request(CACHE)) == {"uid": "42", "allowed": True}


def test_an_object_of_a_subresource_of_another_kind_is_a_dict() -> None:
    plugin = ctrlhost.Plugin()

    @plugin.validate(Cache, "UPDATE", subresource="scale")
    def check(ctx: Any, new: Any, old: Any) -> None:
        raise ctrlhost.Denied(f"{new['spec']['replicas']} replicas")

    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 3}}
    assert answer(host_of(plugin), request(scale, subResource="scale"))["status"]["message"] == "3 replicas"


@pytest.mark.parametrize("subresource", ["", "status"])
def test_a_review_of_another_kind_is_refused(subresource: str) -> None:
    plugin = ctrlhost.Plugin()
    plugin.validate(Cache, name="check", subresource=subresource)(lambda ctx, new, old: pytest.fail("called"))
    with pytest.raises(InvalidReview) as raised:
        answer(host_of(plugin), request(CONFIG))
    expected = "/validate/demo/check takes reviews of example.com/v1/Cache, got one of v1/ConfigMap"
    assert raised.value.message == expected


@behaviour("webhooks/WH4")
def test_a_mutator_that_is_not_stable_fails_and_names_the_field() -> None:
    plugin = ctrlhost.Plugin()
    calls = []

    @plugin.mutate(Cache)
    def grow(ctx: Any, new: Cache, old: Any) -> Cache:
        calls.append(new.spec.size)
        return replaced(new, size=new.spec.size + 1)

    host = host_of(plugin)
    assert patch(answer(host, request(CACHE))) == [{"op": "replace", "path": "/spec/size", "value": 3}]
    with pytest.raises(WebhookFailed) as raised:
        answer(host, request(CACHE), check_stability=True)
    text = "plugin demo: webhook function grow is not stable: called again with its own result, it changes spec.size"
    assert raised.value.message == text
    assert calls == [2, 2, 3]


@behaviour("webhooks/WH4")
def test_a_stable_mutator_is_called_again_only_if_it_changed_anything() -> None:
    plugin = ctrlhost.Plugin()
    calls = []

    @plugin.mutate(Cache)
    def fill(ctx: Any, new: Cache, old: Any) -> Cache:
        calls.append(new.spec.owner)
        return replaced(new, owner="ann")

    host = host_of(plugin)
    assert len(patch(answer(host, request(CACHE), check_stability=True))) == 1
    assert calls == ["", "ann"]
    owned = {**CACHE, "spec": {"owner": "ann"}}
    assert "patch" not in answer(host, request(owned), check_stability=True)
    assert calls == ["", "ann", "ann"]


def test_a_changed_object_that_is_not_returned_is_reported_by_the_test_kit() -> None:
    plugin = ctrlhost.Plugin()

    @plugin.mutate("v1/ConfigMap")
    def fill(ctx: Any, new: dict[str, Any], old: Any) -> None:
        new["data"]["a"] = "1"

    host = host_of(plugin)
    assert "patch" not in answer(host, request(CONFIG))
    with pytest.raises(WebhookFailed, match="fill changed the object and returned None; return the object"):
        answer(host, request(CONFIG), check_stability=True)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "the body is no AdmissionReview: Input data was truncated"),
        (b"[]", "the body is no AdmissionReview: Expected `object`, got `array`"),
        (b'{"a":' * 100_000, "the body is no AdmissionReview: maximum recursion depth exceeded"),
        (b"{}", "the body must be AdmissionReview of admission.k8s.io/v1, got kind '' of ''"),
        (b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}', "got kind 'AdmissionReview' of 'adm"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "the AdmissionReview has no request"),
    ],
)
def test_a_body_that_is_no_review_is_refused(body: bytes, problem: str) -> None:
    plugin = ctrlhost.Plugin()
    plugin.validate(Cache, name="check")(lambda ctx, new, old: None)
    with pytest.raises(InvalidReview) as raised:
        answer(host_of(plugin), body)
    assert problem in raised.value.message


def test_a_cancelled_call_ends() -> None:
    plugin = ctrlhost.Plugin()
    began = asyncio.Event()

    @plugin.validate(Cache)
    async def check(ctx: Any, new: Any, old: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    host = host_of(plugin)

    async def run() -> None:
        task = asyncio.create_task(review.answer_async(host.webhooks[0], request(CACHE), host))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_an_undeclared_cache_is_an_error_with_a_hint() -> None:
    plugin = ctrlhost.Plugin()

    @plugin.validate(Cache)
    def check(ctx: Any, new: Any, old: Any) -> None:
        ctx.cache("v1/configmaps")

    with pytest.raises(WebhookFailed) as raised:
        answer(host_of(plugin), request(CACHE))
    cause = raised.value.__cause__
    assert isinstance(cause, ctrlhost.UndeclaredRead)
    assert cause.message == "webhook /validate/demo/check reads v1/configmaps without declaring it"
    assert cause.hint == 'add it to `@plugin.validate(…, reads=["v1/ConfigMap"])`'
