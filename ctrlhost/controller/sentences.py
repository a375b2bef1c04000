"""How pages, commands, logs and metrics say that keys fail: one sentence for one fact."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.controller.causes import Cause
    from ctrlhost.controller.severity import Outcomes


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number of things, such as `1 key` or `1,200 keys`; the plural has an `s` unless it is given."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def keys_fail(failing: int, keys: int, causes: int) -> str:
    """Return `1,229 of 2,000 keys fail, 2 causes`, such as for a controller; empty if no key fails."""
    if not failing:
        return ""
    noun, verb = "key" if keys == 1 else "keys", "fails" if failing == 1 else "fail"
    return f"{failing:,} of {keys:,} {noun} {verb}, {counted(causes, 'cause')}"


def cause_line(title: str, text: str, keys: int) -> str:
    """Return `771 keys: ValueError at shop/orders.py:12: no price for #`."""
    return f"{counted(keys, 'key')}: {title}{f': {text}' if text else ''}"


def controller_fails(name: str, outcomes: Outcomes, worst: Cause | None) -> str:
    """Return why a plugin is degraded: the keys of one of its controllers that fail, and the worst cause."""
    sentence = f"{name}: {keys_fail(outcomes.failing, outcomes.keys, outcomes.causes)}"
    return sentence if worst is None else f"{sentence}; {cause_line(worst.title, worst.text, worst.keys)}"


def grant(plugins: Iterable[str]) -> str:
    """Return the command that grants the plugins of a host their rights: of all, since it prints their Deployment."""
    return f"ctrlhost manifests --plugins={','.join(plugins)} --image=IMAGE | kubectl apply --server-side -f -"


def rights_missing(plugin: str, count: int, plugins: Iterable[str]) -> str:
    """Return how many rights a plugin lacks, and what to type; `plugins` are all of the host."""
    command = f"`{grant(plugins)}`, with the options of the installation"
    return f"{counted(count, 'right')} missing for {plugin}: run {command}"
