"""The pages on the plugin API and on testing agree with the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from ctrlhost import Context, Every, For, Owns, PluginContext, Result, Watches, predicates
from ctrlhost.controller.context import ControllerScope
from ctrlhost.events.recorder import PluginEvents
from ctrlhost.testing.faults import VERBS, Faults
from ctrlhost.testing.host import HostUnderTest

ROOT = Path(__file__).parents[2]
API = (ROOT / "docs" / "reference" / "plugin-api.md").read_text(encoding="utf-8")
TESTING = (ROOT / "docs" / "how-to" / "testing.md").read_text(encoding="utf-8")

#: For the host, or for inspection of a plugin from outside.
INNER = {
    "services",
    "scope",
    "controllers",
    "tasks",
    "pages",
    "listeners",
    "address_settings",
    "collected",
    "health_checks",
    "reads",
    "informers",
    "webhooks",
    "conversions",
    "clean_up",
    "close",
    "fence",
}
#: Internals of the worker, and fields of log lines.
OF_THE_WORKER = {
    "cause",
    "clock",
    "controller",
    "declared",
    "end",
    "enter",
    "enter_range",
    "in_flight",
    "number",
    "of_run",
    "permit",
    "reconcile_id",
    "request",
    "run_name",
    "started",
    "worker",
}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def mentioned(names: set[str], page: str) -> None:
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    words = set(re.findall(r"[A-Za-z_]+", " ".join(re.findall(r"`[^`]+`", prose))))
    assert sorted(names - words) == []


def test_everything_that_a_plugin_gets_is_described() -> None:
    source = inspect.getsource(PluginContext.__init__)
    attributes = set(re.findall(r"self\.([a-z]\w*)", source))
    mentioned((public(PluginContext) | attributes) - INNER, API)


def test_everything_that_a_reconciler_gets_is_described() -> None:
    mentioned(public(Context) - OF_THE_WORKER, API)
    mentioned({field.name for field in dataclasses.fields(Result)}, API)
    assert {field.name for field in dataclasses.fields(ControllerScope)} >= {"clients", "events", "log"}


@pytest.mark.parametrize("kind", [For, Owns, Watches, Every])
def test_every_option_of_a_source_is_described(kind: type) -> None:
    mentioned(set(inspect.signature(kind).parameters), API)
    mentioned({kind.__name__}, API)


def test_every_option_of_a_controller_is_described() -> None:
    parameters = inspect.signature(PluginContext.add_controller).parameters.values()
    mentioned({parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}, API)


def test_every_predicate_and_kind_of_event_is_described() -> None:
    ready = {name for name, value in vars(predicates).items() if isinstance(value, predicates.Ready)}
    mentioned(ready | {"and_", "or_", "not_"}, API)
    mentioned(public(PluginEvents), API)


def test_everything_that_a_test_gets_is_described() -> None:
    attributes = set(re.findall(r"self\.([a-z]\w*)", inspect.getsource(HostUnderTest.__init__)))
    mentioned((public(HostUnderTest) | attributes) - {"start"}, TESTING)
    mentioned(set(VERBS), TESTING)
    mentioned(public(Faults) - {"take", "let_through"}, TESTING)


def test_the_example_of_the_testing_page_equals_a_test() -> None:
    example = re.findall(r"```python\n(.*?)```", TESTING, re.DOTALL)[0]
    runs = (ROOT / "tests" / "host" / "test_greeter.py").read_text(encoding="utf-8")
    lines = [line.strip() for line in example.partition("def ")[2].splitlines()[1:] if line.strip()]
    assert len(lines) == 7
    assert [line for line in lines if line not in runs] == []
