"""Reference pages of the public classes, written from their docstrings and signatures."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from typing import Any, get_overloads

import ctrlhost_sandbox as sandbox

import ctrlhost
from ctrlhost import cache, testing, workqueue

#: The classes of each page, in their order.
CLASSES: dict[str, list[Any]] = {
    "plugin": [ctrlhost.Plugin, ctrlhost.Controller, ctrlhost.Index],
    "context": [
        ctrlhost.Context,
        ctrlhost.StatusWriter,
        ctrlhost.Cache,
        ctrlhost.AsyncContext,
        ctrlhost.AsyncCache,
        ctrlhost.Caches,
        ctrlhost.Admission,
    ],
    "object": [ctrlhost.Object, cache.MapView, cache.ListView, cache.OwnerReference],
    "client": [ctrlhost.Client, ctrlhost.AsyncClient],
    "permission": [ctrlhost.Permission],
    "sources": [ctrlhost.For, ctrlhost.Owns, ctrlhost.Watches, ctrlhost.Every, ctrlhost.ByLabel, ctrlhost.ByIndex],
    "informers": [ctrlhost.InformerFactory, ctrlhost.Informer, ctrlhost.Owner],
    "workqueue": [
        workqueue.WorkQueue,
        workqueue.ItemExponentialFailureRateLimiter,
        workqueue.ItemFastSlowRateLimiter,
        workqueue.BucketRateLimiter,
        workqueue.MaxOfRateLimiter,
        workqueue.WithMaxWaitRateLimiter,
        workqueue.QueueSnapshot,
    ],
    "testing": [
        testing.HostUnderTest,
        testing.Run,
        testing.Write,
        testing.StartHost,
        testing.ManualClock,
        testing.Faults,
        testing.FaultProxy,
    ],
}
#: What the host does with a source.
_OF_THE_HOST = {
    *("add_lister", "attach", "cached", "check", "declare", "describe", "group", "informer", "is_primary"),
    *("late", "permissions", "reads", "reference"),
}
#: For the host, or for the types that derive from these.
INNER = {
    "Context": {
        *(
            "async_client",
            "cause",
            "declared",
            "end",
            "enter",
            "enter_range",
            "in_flight",
            "number",
            "of_run",
            "permit",
            "reconcile_id",
            "run_name",
        ),
        *("started", "term", "worker"),
    },
    "Client": {"of_account", "page_steps", "separate"},
    "Plugin": {"loaded"},
    "StatusWriter": {"patch"},
    "Cache": {"caught_up", "namespace"},
    "AsyncCache": {"caught_up"},
    "InformerFactory": {"declare", "declare_scope", "share", "wake", "withdraw"},
    "Informer": {
        *("callback_metrics", "check", "covers", "enqueue_to", "follow_parts", "has_filled_queues", "kind_gone"),
        *("last_byte_age", "over_budget", "over_budget_in", "parts", "release", "version_in", "wake", "widen"),
    },
    "WorkQueue": {"id", "look", "record_causes", "forget_causes", "take_causes"},
    **dict.fromkeys(("For", "Owns", "Watches", "Every"), _OF_THE_HOST),
}
#: Those that an author makes.
MADE = (ctrlhost.Plugin, ctrlhost.Client, ctrlhost.AsyncClient)
MODULES = {
    "ctrlhost": ctrlhost,
    "ctrlhost.testing": testing,
    "ctrlhost_sandbox": sandbox,
    "ctrlhost.cache": cache,
    "ctrlhost.workqueue": workqueue,
}


def class_page(page: str) -> str:
    """Return the generated part of a page."""
    return "\n".join(part for kind in CLASSES[page] for part in described(kind))


def described(kind: Any) -> list[str]:
    """Return the sections of a class: its own docstring, and one for each public member that has one."""
    parts = [f"## `{kind.__name__}`\n", f"{docstring(kind)}\n"]
    if kind in MADE:
        arguments = signature(kind, "__init__")
        parts += [f"### `{kind.__name__}{arguments}`\n", f"{docstring(kind.__init__)}\n"]
    if names := fields(kind):
        parts.append(f"Fields: {', '.join(f'`{name}`' for name in names)}.\n")
    for name in members(kind):
        if name in names:
            continue
        member = inspect.getattr_static(kind, name)
        text = docstring(getattr(kind, name) if isinstance(member, staticmethod | classmethod) else member)
        if text:
            called = "" if not is_called(member) else signature(kind, name)
            parts += [f"### `{name}{called}`\n", f"{text}\n"]
    return parts


def fields(kind: Any) -> list[str]:
    """Return the names of what a class holds, apart from what has a text of its own."""
    declared = getattr(kind, "_fields", ())
    named = set(declared if isinstance(declared, tuple) else ())
    if dataclasses.is_dataclass(kind):
        named |= {field.name for field in dataclasses.fields(kind)}

    def is_field(name: str) -> bool:
        member = inspect.getattr_static(kind, name)
        return name in named or (not is_called(member) and not docstring(member))

    return [name for name in members(kind) if is_field(name)]


def members(kind: Any) -> list[str]:
    """Return the public names of a class in the order of their definition, those of base classes last."""
    order: list[str] = []
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "ctrlhost":
            names = [name for name in vars(base) if name not in order]
            # The compiler orders those of the core.
            order += names if any(inspect.isfunction(value) for value in vars(base).values()) else sorted(names)
    left_out = INNER.get(kind.__name__, set())
    return [name for name in order if not name.startswith(("_", "ctrlhost_")) and name not in left_out]


def is_called(member: Any) -> bool:
    """Return whether a member is a method."""
    return inspect.isroutine(member) or isinstance(member, staticmethod | classmethod)


def signature(kind: Any, name: str) -> str:
    """Return the parameters of a method, without types."""
    member = getattr(kind, name)
    static = inspect.getattr_static(kind, name)
    # The implementation of overloads may take any keywords; the longest overload has all of them.
    forms = get_overloads(member) if inspect.isfunction(member) else []
    longest = inspect.signature(max(forms, key=lambda form: len(inspect.signature(form).parameters), default=member))
    parameters = list(longest.parameters.values())
    if not inspect.ismethod(member) and not isinstance(static, staticmethod | classmethod):
        parameters = parameters[1:]
    return str(inspect.Signature([plain(parameter) for parameter in parameters])).replace("=Ellipsis", "=…")


def plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter without its type; a default that is no plain value is shown as `…`."""
    default = parameter.default
    simple = default is inspect.Parameter.empty or isinstance(default, str | int | float | bool | tuple | None)
    simple = simple and not isinstance(default, enum.Enum)
    return parameter.replace(annotation=inspect.Parameter.empty, default=default if simple else ...)


def docstring(member: Any) -> str:
    """Return a docstring as it stands in Markdown."""
    return inspect.getdoc(member) or ""


def places() -> dict[str, str]:
    """Return the page of each class that has one."""
    return {kind.__name__: page for page, kinds in CLASSES.items() for kind in kinds}


def names_page() -> str:
    """Return a table of the public names of each module: the first paragraph of the docstring, and the page."""
    parts = []
    pages = places()
    for title, module in MODULES.items():
        parts += [f"## `{title}`\n", "| Name | |", "|---|---|"]
        for name in module.__all__:
            value = getattr(module, name)
            page = pages.get(name) if pages.get(name) != "testing" or title == "ctrlhost.testing" else None
            link = f"[`{name}`]({page}.md#{name.lower()})" if page else f"`{name}`"
            parts.append(f"| {link} | {summary(name, value)} |")
        parts.append("")
    return "\n".join(parts)


#: Names without a docstring of their own.
SUMMARIES = {
    "__version__": "The version of ctrlhost.",
    "IntOrString": "The type of a field that is an integer or a text, such as a port.",
    "Key": "What a queue holds: texts, integers, and tuples of keys.",
    "hookimpl": "Marks a function of a module as one of its hooks.",
    "Quantity": 'The type of a quantity, such as `"1Gi"`, `"500m"` or `2`.',
}


def summary(name: str, value: Any) -> str:
    """Return the first paragraph of a docstring in one line."""
    text = SUMMARIES.get(name) or docstring(value)
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
