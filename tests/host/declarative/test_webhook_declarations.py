"""Mistakes in the declaration of webhooks: found when the plugin is loaded, all at once, each with its place."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.declarative.checks import DeclarationError
from ctrlhost.supervisor.loader import PluginManager

if TYPE_CHECKING:
    from pathlib import Path

    from tests.host.conftest import Distributions

behaviour = pytest.mark.behaviour

HEAD = """
import ctrlhost, msgspec
plugin = ctrlhost.Plugin()
class Spec(msgspec.Struct):
    size: int = 0
@ctrlhost.resource("example.com/v1", storage=True)
class Cache(ctrlhost.Model[Spec, None]): ...
@ctrlhost.resource("example.com/v1alpha1", kind="Cache")
class OldCache(ctrlhost.Model[Spec, None]): ...
"""
VALIDATE, MUTATE, CONVERT = "def check(ctx, new, old): ...", "def fill(ctx, new, old): ...", "def up(obj): ..."
BOTH = """
@plugin.convert(Cache, source=OldCache, target="v1")
def up(obj): ...
@plugin.convert(Cache, source="v1", target="v1alpha1")
def down(obj): ...
"""
#: The decorator, the function below it, the message, and what the hint contains.
MISTAKES: list[tuple[str, str, str, str]] = [
    (
        "validate(Cache)",
        "def check(ctx, new): ...",
        "takes (ctx, new), but is called with (ctx, new, old)",
        "new, old)",
    ),
    ("mutate(Cache)", "async def fill(obj): ...", "takes (obj), but is called with (ctx, new, old)", "async def fill"),
    ("validate(Cache)", "def check(ctx, new, old):\n    yield", "is a generator: it would never run", "`return`"),
    ("validate", "def check(ctx, new, old): ...", "is below `@plugin.validate` without parentheses", "Deployment"),
    ('validate(Cache, ["CREATE", "PATCH"])', VALIDATE, "unknown operation 'PATCH' of `@plugin.validate`", "DELETE, *"),
    ('validate(Cache, "CONNECT")', VALIDATE, "unknown operation 'CONNECT' of `@plugin.validate`", "CREATE, UPDATE"),
    ('mutate(Cache, "DELETE")', MUTATE, "unknown operation 'DELETE' of `@plugin.mutate`", "CREATE, UPDATE, *"),
    ("validate(Cache, [])", VALIDATE, "operations is []; it must be a list", "CREATE, UPDATE, DELETE, *"),
    ('validate(Cache, timeout="31s")', VALIDATE, "timeout is '31s'; the API server takes whole seconds", '"5s"'),
    ('validate(Cache, timeout="1500ms")', VALIDATE, "timeout is '1500ms'; the API server takes whole", '"5s"'),
    ('validate(Cache, timeout="soon")', VALIDATE, "timeout: invalid duration `soon`", '"30s"'),
    ('validate(Cache, failure_policy="fail")', VALIDATE, "failure_policy is 'fail'", '"Ignore"'),
    ('validate(Cache, name="a_b")', VALIDATE, "'a_b' cannot be the name of a webhook", "DNS label"),
    ("validate(Cache, reinvoke=True)", VALIDATE, "unknown option `reinvoke`", "known: "),
    ('validate(Cache, label_selector="a==b==c")', VALIDATE, "label_selector: label selector", "tier in (a,b)"),
    ("validate(Cache, when=5)", VALIDATE, "when is 5; it must be a text", "when="),
    ('validate(Cache, namespaces="shop")', VALIDATE, "namespaces is a list, got 'shop'", "namespaces=[…]"),
    ('validate(Cache, reads=["Quota"])', VALIDATE, "reads: invalid kind 'Quota'", "apps/v1/Deployment"),
    ('validate("*")', VALIDATE, "kind '*' stands for many kinds", "one webhook per kind"),
    ('validate("apps/v1/*")', VALIDATE, "kind 'apps/v1/*' stands for many kinds", "one webhook per kind"),
    ("validate(Spec)", VALIDATE, "kind: struct Spec is not a kind", "@ctrlhost.resource"),
    *(
        (
            f'validate("{kind}")',
            VALIDATE,
            f"a webhook on {kind.rpartition('/')[2]} would lock the cluster while the host is down",
            "ValidatingAdmissionPolicy",
        )
        for kind in (
            "coordination.k8s.io/v1/Lease",
            "v1/Event",
            "events.k8s.io/v1/Event",
            "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration",
            "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration",
            "authentication.k8s.io/v1/TokenReview",
            "authorization.k8s.io/v1/SubjectAccessReview",
        )
    ),
    (
        'validate("v1/Secret")',
        VALIDATE,
        "a webhook on all Secrets would match those that the host needs",
        "namespaces=",
    ),
    (
        'validate("apiextensions.k8s.io/v1/CustomResourceDefinition")',
        VALIDATE,
        "a webhook on CRDs would refuse those that the host installs at its start",
        'failure_policy="Ignore"',
    ),
    ('convert(Cache, source="v1", target=5)', CONVERT, "5 is not a kind", "source="),
    ('convert(Cache, source="v1", target="v2")', CONVERT, "Cache.example.com has no version v2; it has v1", "v1"),
    ('convert(Cache, source="v1", target="v1")', CONVERT, "converts v1 to itself", "two versions"),
    ('convert("v1/Pod", source="v1", target="v2")', CONVERT, "the plugin has no CRD of Pod", "crds="),
    (
        'convert(Cache, source="v1", target="v1alpha1")',
        "def up(a, b): ...",
        "takes (a, b), but is called with",
        "(obj)",
    ),
    (
        'convert(Cache, source="v1", target="v1alpha1")',
        "async def up(obj): ...",
        "is an async def: it would never run; use def",
        "def up(obj)",
    ),
    (
        "convert(Cache, source=OldCache, target=Cache)",
        CONVERT,
        "no way from v1 to v1alpha1: each version of Cache needs one to each other",
        'source="v1", target="v1alpha1")',
    ),
]


@behaviour("webhooks/WH14")
@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case[0])
def test_a_mistake_is_named_with_its_place_and_a_hint(case: tuple[str, str, str, str]) -> None:
    decorator, function, text, hint = case
    source = f"{HEAD}@plugin.{decorator}\n{function}\n"
    names: dict[str, Any] = {"__name__": "demo"}
    exec(compile(source, "demo.py", "exec"), names)
    with pytest.raises(DeclarationError) as caught:
        PluginManager().register("demo", names["plugin"])
    named = [mistake for mistake in caught.value.mistakes if mistake.text.startswith(text)]
    assert [(mistake.place, mistake.function) for mistake in named] == [
        (f"demo.py:{HEAD.count(chr(10)) + 1}", function.split("(")[0].split()[-1])
    ]
    assert hint in named[0].hint


@behaviour("webhooks/WH14")
@behaviour("webhooks/WH18")
def test_all_mistakes_of_a_plugin_are_reported_together_and_other_plugins_load(
    distributions: Distributions, ctrlhost_host: Any
) -> None:
    source = """
        @plugin.validate("v1/Event")
        def first(ctx, new, old): ...
        @plugin.validate(Cache, timeout=60)
        def second(ctx, new): ...
        @plugin.mutate(Cache, name="second")
        def third(ctx, new, old): ...
        @plugin.convert(Cache, source=OldCache, target="v1")
        def fourth(obj): ...
    """
    distributions.add("broken", HEAD + textwrap.dedent(source))
    other = ctrlhost.Plugin()
    other.controller("v1/ConfigMap")(lambda ctx, obj: None)
    host = ctrlhost_host("broken", other, start=False)
    host.start()
    states = {plugin.name: plugin for plugin in host.host.plugins}
    failed = states.pop("broken")
    assert (failed.state, [plugin.state for plugin in states.values()]) == ("failed", ["running"])
    line = HEAD.count("\n")
    expected = [
        (line + 2, "first: a webhook on Event would lock the cluster while the host is down"),
        (line + 4, "second: takes (ctx, new), but is called with (ctx, new, old)"),
        (line + 4, "second: timeout is 60; the API server takes whole seconds from 1 to 30"),
        (line + 4, "second: 2 webhooks have the name second"),
        (line + 6, "third: 2 webhooks have the name second"),
        (line + 8, "fourth: no way from v1 to v1alpha1: each version of Cache needs one to each other"),
    ]
    file = distributions.folder / "test_broken.py"
    assert isinstance(failed.error, DeclarationError)
    assert sorted(str(mistake) for mistake in failed.error.mistakes) == sorted(
        f"{file}:{number}: {text}" for number, text in expected
    )


def test_check_counts_the_webhooks_and_knows_their_kinds(ctrlhost: Any, tmp_path: Path) -> None:
    file = tmp_path / "demo.py"
    source = """
        import ctrlhost
        plugin = ctrlhost.Plugin()
        @plugin.validate("v1/Pod")
        def check_pod(ctx, new, old): ...
        @plugin.mutate("v1/Deployment")
        def fill(ctx, new, old): ...
    """
    file.write_text(textwrap.dedent(source))
    checked = ctrlhost("check", "-v", "--offline", str(file))
    assert checked.returncode == 1
    assert "ok demo declaration: controllers: 0, webhooks: 2\n" in checked.stdout
    (error,) = [line for line in checked.stdout.splitlines() if line.startswith("error ")]
    assert error.startswith("error demo kind: no version of Kubernetes has a kind `Deployment` in v1")


def test_the_webhooks_of_a_plugin_are_registered_in_order(ctrlhost_host: Any) -> None:
    names: dict[str, Any] = {"__name__": "demo"}
    source = """
        @plugin.mutate(Cache, "*", name="z", reinvoke=False)
        def fill(ctx, new, old): ...
        @plugin.mutate("v1/Pod", timeout=3, namespaces=["shop"], label_selector="a=b", when="true")
        async def fill_pod(ctx, new, old): ...
        @plugin.validate(Cache, "*", failure_policy="Ignore", subresource="status")
        def check(ctx, new, old): ...
    """
    exec(compile(HEAD + textwrap.dedent(source) + BOTH, "demo.py", "exec"), names)
    host = ctrlhost_host(names["plugin"])
    (plugin,) = host.host.plugins
    fill, pod, check = plugin.context.webhooks
    assert [webhook.path for webhook in (fill, pod, check)] == [
        "/mutate/demo/z",
        "/mutate/demo/fill-pod",
        "/validate/demo/check",
    ]
    assert pod.qualified_name == "fill-pod.demo.ctrlhost.dev"
    assert (fill.operations, check.operations) == (("CREATE", "UPDATE"), ("CREATE", "UPDATE", "DELETE"))
    assert (fill.reinvoke, pod.reinvoke, fill.timeout, pod.timeout) == (False, True, 5, 3)
    assert (fill.is_async, pod.is_async, fill.kind.model, pod.kind.model) == (False, True, names["Cache"], None)
    assert (pod.namespaces, pod.label_selector, pod.when) == (("shop",), "a=b", "true")
    assert (check.failure_policy, check.subresource, fill.failure_policy) == ("Ignore", "status", "Fail")
    assert check.place == f"demo.py:{HEAD.count(chr(10)) + 6}"
    (conversion,) = plugin.context.conversions
    assert (conversion.path, conversion.versions, conversion.storage) == (
        "/convert/example.com/caches",
        ("v1", "v1alpha1"),
        "v1",
    )


class Spec(msgspec.Struct, frozen=True):
    size: int = 0


class OtherSpec(msgspec.Struct, frozen=True):
    size: int = 0
    color: str = ""


def model(version: str, spec: type[Any] = Spec, **options: Any) -> type[Any]:
    """Return the model of a version of Cache."""

    @ctrlhost.resource(f"example.com/{version}", kind="Cache", **options)
    class Model(ctrlhost.Model[spec, None]):  # type: ignore[valid-type]
        """A cache."""

    return Model


def crd(*models: type[Any], converted: bool = False) -> dict[str, Any]:
    """Return the CRD of a plugin that declares these models."""
    plugin: Any = ctrlhost.Plugin()
    plugin.controller("v1/Pod", watches=list(models))(lambda ctx, obj: None)
    for source, target in ((models[0], models[1]), (models[1], models[0])) if converted else ():
        plugin.convert(models[0], source=source, target=target)(lambda obj: obj)
    (crd,) = PluginManager().register("demo", plugin).crds()
    return crd


def test_the_models_of_a_kind_become_one_crd_with_the_newest_version_first() -> None:
    versions = ("v1alpha1", "v2", "v1beta2", "v1", "v1beta10", "other")
    crds = crd(*(model(version, storage=version == "v1") for version in versions))
    listed = crds["spec"]["versions"]
    assert [version["name"] for version in listed] == ["v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "other"]
    assert [version["name"] for version in listed if version["storage"]] == ["v1"]
    assert all(version["served"] for version in listed)
    # The strategy None is the default of the server.
    assert "conversion" not in crds["spec"]


def test_a_converted_crd_names_the_webhook() -> None:
    definition = crd(model("v1", storage=True), model("v1alpha1", OtherSpec), converted=True)
    assert definition["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {
                    "namespace": "ctrlhost",
                    "name": "ctrlhost",
                    "path": "/convert/example.com/caches",
                    "port": 443,
                }
            },
        },
    }


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (
            [model("v1"), model("v2")],
            "the CRD caches.example.com has the versions v2, v1, of which 0 have `storage=True`",
        ),
        (
            [model("v1", storage=True), model("v2", storage=True)],
            "the CRD caches.example.com has the versions v2, v1, of which 2 have `storage=True`",
        ),
        ([model("v1"), model("v1", storage=True)], "2 models define the version v1 of the CRD caches.example.com"),
        (
            [model("v1", storage=True), model("v2", scope="Cluster")],
            "the CRD caches.example.com: v2 and v1 differ in scope",
        ),
        (
            [model("v1", storage=True), model("v2", short_names=["ca"])],
            "the CRD caches.example.com: v2 and v1 differ in shortNames",
        ),
        (
            [model("v1", storage=True), model("v2", OtherSpec)],
            "the CRD caches.example.com: v2 and v1 differ in spec.color, and nothing converts it",
        ),
        (
            [model("v1", storage=True, rules=[ctrlhost.Rule("true")]), model("v2")],
            "the CRD caches.example.com: v2 and v1 differ in the whole object, and nothing converts it",
        ),
    ],
)
def test_models_that_are_no_versions_of_one_kind_are_refused(models: list[type[Any]], message: str) -> None:
    with pytest.raises(ctrlhost.ConfigError) as raised:
        crd(*models)
    assert raised.value.message == message
    assert raised.value.hint
