"""Every public name of the installed kopf is here: names, decorators, keywords, settings and their defaults."""

from __future__ import annotations

import contextvars
import dataclasses
import inspect
from contextlib import nullcontext
from typing import Any

import ctrlhost_kopf
import kopf
import pytest
from ctrlhost_kopf.execution import Children, handler_var, subregistry_var

pytestmark = pytest.mark.behaviour("kopf/KO13")

#: Names of kopf's package that are no part of its list of public ones.
DECORATORS = sorted(
    name
    for name, function in vars(kopf.on).items()
    if inspect.isfunction(function) and function.__module__ == kopf.on.__name__ and not name.startswith("_")
    if name not in ("register", "subhandler")
)
#: Settings whose values are made anew for each operator.
OBJECTS = {"executor", "progress_storage", "diffbase_storage"}
SELECTORS = {"label_selectors", "field_selectors", "shard_selectors"}


@pytest.mark.parametrize("name", sorted(kopf.__all__))
def test_every_public_name_of_kopf_is_here(name: str) -> None:
    assert name in ctrlhost_kopf.__all__
    theirs, ours = getattr(kopf, name), getattr(ctrlhost_kopf, name)
    assert callable(ours) == callable(theirs)


@pytest.mark.parametrize("name", DECORATORS)
def test_every_decorator_has_the_keywords_of_kopf(name: str) -> None:
    parameters = inspect.signature(getattr(kopf.on, name)).parameters.values()
    keywords = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    decorator = getattr(ctrlhost_kopf.on, name)
    of_objects = "labels" in keywords
    registry = ctrlhost_kopf.OperatorRegistry()
    for keyword in sorted(keywords - {"registry"}):
        kinds = () if not of_objects or keyword in ("kind", "plural", "singular", "shortcut", "category") else ("kex",)
        values: dict[str, Any] = {keyword: {"value"} if keyword == "operations" else "value"}
        if keyword in ("labels", "annotations"):
            values = {keyword: {"label": "value"}}
        if keyword in ("value", "old", "new"):
            values["field"] = "spec.field"
        with pytest.warns(DeprecationWarning, match="operation=") if keyword == "operation" else nullcontext():
            decorator(*kinds, registry=registry, **values)(lambda **_: None)


@pytest.mark.parametrize("name", DECORATORS)
def test_an_argument_that_kopf_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(ctrlhost_kopf.NotSupported, match="forked"):
        getattr(ctrlhost_kopf.on, name)(forked=True)


def _settings(settings: Any) -> dict[str, Any]:
    groups = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    return {
        f"{group}.{field.name}": getattr(value, field.name)
        for group, value in groups.items()
        for field in dataclasses.fields(value)
        if not field.name.startswith("_")
    }


def test_every_setting_of_kopf_is_here_with_its_default() -> None:
    theirs, ours = _settings(kopf.OperatorSettings()), _settings(ctrlhost_kopf.OperatorSettings())
    for name, value in theirs.items():
        if name.rpartition(".")[2] in OBJECTS:
            assert type(ours[name]).__name__ == type(value).__name__
        elif name.rpartition(".")[2] in SELECTORS:
            assert dict(ours[name]) == dict(value) == {}
        else:
            assert ours[name] == value
    for name in ("execution.max_workers", "queueing.batch_window", "peering.namespaced"):
        group, _, setting = name.partition(".")
        setattr(getattr(settings := ctrlhost_kopf.OperatorSettings(), group), setting, 3)
        assert getattr(getattr(settings, group), setting)


@pytest.mark.parametrize("name", ["register", "subhandler"])
def test_subhandlers_have_the_keywords_of_kopf(name: str) -> None:
    def fn(**_: Any) -> None: ...

    parent = ctrlhost_kopf.OperatorRegistry()
    ctrlhost_kopf.on.update("kex", registry=parent)(fn)
    context = contextvars.copy_context()
    context.run(handler_var.set, parent.changing[0])
    context.run(subregistry_var.set, children := Children())
    parameters = inspect.signature(getattr(kopf, name)).parameters.values()
    keywords = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    for keyword in sorted(keywords):
        values: dict[str, Any] = {"labels": {"a": "b"}, "annotations": {"a": "b"}}
        options = {keyword: values.get(keyword, "value")}
        if keyword in ("value", "old", "new"):
            options["field"] = "spec.field"
        arguments = (fn,) if name == "register" else ()
        context.run(getattr(ctrlhost_kopf, name), *arguments, **options)
    assert len(children) == (len(keywords) if name == "register" else 0)
    with pytest.raises(ctrlhost_kopf.NotSupported, match="forked"):
        context.run(ctrlhost_kopf.subhandler, forked=True)
