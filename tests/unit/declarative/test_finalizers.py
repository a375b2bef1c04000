"""Declarations of finalizers."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost.declarative.checks import DeclarationError, check
from ctrlhost.declarative.finalizers import ObjectFinalizers, collect_finalizers


def reconcile(ctx: Any, obj: Any) -> None: ...
async def reconcile_async(ctx: Any, obj: Any) -> None: ...
def clean_up(ctx: Any, obj: Any) -> None: ...
async def clean_up_async(ctx: Any, obj: Any) -> None: ...


def problem(plugin: ctrlhost.Plugin[None], hint: str) -> str:
    with pytest.raises(DeclarationError) as raised:
        check(plugin.declaration, "demo")
    mistake = raised.value.mistakes[-1]
    assert (mistake.place.rpartition("/")[2].partition(":")[0], mistake.function[:8]) == (
        "test_finalizers.py",
        "clean_up",
    )
    assert mistake.hint == hint
    return mistake.text


@pytest.mark.parametrize("name", ["example.com/cleanup", "a/b", "my-domain.example/Some_Name.v1"])
def test_valid_names_pass(name: str) -> None:
    plugin = ctrlhost.Plugin()
    controller = plugin.controller("v1/ConfigMap")(reconcile)
    assert plugin.finalizer(name, of=controller)(clean_up) is clean_up
    check(plugin.declaration, "demo")


@pytest.mark.parametrize(
    "name",
    ["cleanup", "/cleanup", "example.com/", "Example.com/x", "a/b/c", "a/-b", "a/b\n", f"a/{64 * 'b'}", "-a/b", None],
)
def test_a_finalizer_needs_a_domain_and_a_name(name: Any) -> None:
    plugin = ctrlhost.Plugin()
    plugin.finalizer(name, of=plugin.controller("v1/ConfigMap")(reconcile))(clean_up)
    assert (
        problem(plugin, 'write it as `@plugin.finalizer("example.com/cleanup", of=reconcile)`')
        == f'{name!r} is not the name of a finalizer: it needs a domain, such as "example.com/cleanup"'
    )


def test_a_finalizer_is_of_a_controller_of_the_same_plugin() -> None:
    plugin, other = ctrlhost.Plugin(), ctrlhost.Plugin()
    plugin.finalizer("example.com/a", of=other.controller("v1/ConfigMap")(reconcile))(clean_up)
    hint = "decorate `reconcile` with `@plugin.controller(…)`, above its finalizers"
    assert problem(plugin, hint) == "of=reconcile is not a controller of this plugin"


@pytest.mark.parametrize(
    ("of", "hint"),
    [
        (reconcile, "decorate `reconcile` with `@plugin.controller(…)`, above its finalizers"),
        (
            "reconcile",
            'write it as `@plugin.finalizer("example.com/a", of=reconcile)`, with the function of the controller',
        ),
    ],
    ids=["undecorated", "text"],
)
def test_the_hint_says_how_to_name_the_controller(of: Any, hint: str) -> None:
    plugin = ctrlhost.Plugin()
    plugin.finalizer("example.com/a", of=of)(clean_up)
    name = "reconcile" if of is reconcile else "'reconcile'"
    assert problem(plugin, hint) == f"of={name} is not a controller of this plugin"


def test_a_function_is_async_if_its_controller_is() -> None:
    plugin, other = ctrlhost.Plugin(), ctrlhost.Plugin()
    plugin.finalizer("example.com/a", of=plugin.controller("v1/ConfigMap")(reconcile_async))(clean_up)
    hint = "write it as `async def clean_up(ctx, obj)`"
    assert problem(plugin, hint) == "is def, but its controller configmap is async def; both have to be the same"
    other.finalizer("example.com/a", of=other.controller("v1/ConfigMap")(reconcile))(clean_up_async)
    hint = "write it as `def clean_up_async(ctx, obj)`"
    assert problem(other, hint) == "is async def, but its controller configmap is def; both have to be the same"


def test_when_is_a_function() -> None:
    plugin = ctrlhost.Plugin()
    when: Any = True
    plugin.finalizer("example.com/a", of=plugin.controller("v1/ConfigMap")(reconcile), when=when)(clean_up)
    assert problem(plugin, "write `when=lambda obj: …`") == "when=True is not a function of the object"


def test_a_controller_has_each_finalizer_once() -> None:
    plugin = ctrlhost.Plugin()
    controller = plugin.controller("v1/ConfigMap")(reconcile)
    two = plugin.controller("v1/Secret")(reconcile)
    plugin.finalizer("example.com/a", of=controller)(clean_up)
    plugin.finalizer("example.com/a", of=two)(clean_up)
    check(plugin.declaration, "demo")
    plugin.finalizer("example.com/a", of=controller)(clean_up)
    assert problem(plugin, "give each another name") == "the controller configmap has two finalizers example.com/a"


def test_the_memory_of_deleted_objects_is_bounded() -> None:
    plugin = ctrlhost.Plugin()
    controller = plugin.controller("v1/ConfigMap")(reconcile)
    plugin.finalizer("example.com/a", of=controller)(clean_up)
    (own,) = collect_finalizers(controller, plugin.declaration.finalizers)
    finalizers, keys = ObjectFinalizers([own], objects=2), [ctrlhost.Request(name) for name in "abc"]
    for key in keys:
        finalizers.succeeded(key, "u", own)
    assert [finalizers._finished_of(key, "u") for key in keys] == [set(), {own.name}, {own.name}]
    finalizers.gone(keys[1])
    assert finalizers._finished_of(keys[1], "u") == set()


@pytest.mark.behaviour("findings3/NC17")
def test_what_has_succeeded_for_an_object_is_not_done_for_the_next_one_of_its_name() -> None:
    plugin = ctrlhost.Plugin()
    controller = plugin.controller("v1/ConfigMap")(reconcile)
    for name in ("example.com/a", "example.com/b"):
        plugin.finalizer(name, of=controller)(clean_up)
    (declared,) = plugin.declaration.controllers
    first, second = collect_finalizers(declared, plugin.declaration.finalizers)
    finalizers, key = ObjectFinalizers((first, second)), ctrlhost.Request("a", "default")

    def obj(uid: str) -> ctrlhost.Object:
        metadata = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": "1"}
        metadata |= {"finalizers": [first.name, second.name], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        return ctrlhost.Object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def due(uid: str) -> Any:
        """Return the finalizer that is called without a write before."""
        client: Any = None
        steps = finalizers.next(client, key, obj(uid), lambda obj: obj)
        try:
            next(steps)
        except StopIteration as end:
            return end.value[1]
        except AttributeError:
            return "a write"
        return "a write"

    assert due("u1") is first
    finalizers.succeeded(key, "u1", first)
    assert due("u1") == "a write"
    assert due("u2") is first
    # Nor does it count again for the former object.
    finalizers.succeeded(key, "u2", second)
    assert due("u2") is first
