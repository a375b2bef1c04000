"""Running actions in random orders, which must all lead to the same objects."""

from __future__ import annotations

import difflib
import os
import random
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ctrlhost.testing.host import HostUnderTest
from ctrlhost.testing.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ctrlhost.models.kinds import KindRef
    from ctrlhost.models.typed_objects import AnyObject

    #: Called with the host, or applied to the cluster.
    Action = Callable[[HostUnderTest], object] | str | os.PathLike[str] | AnyObject


def converges(
    plugin: object | Sequence[object],
    actions: Sequence[Action],
    *,
    kinds: Sequence[KindRef[Any]],
    runs: int = 20,
    seed: int | None = None,
    **options: Any,
) -> None:
    """Run `actions` in `runs` random orders, each on a fresh host, and compare what comes out.

    An action is a function of the host or what `HostUnderTest.apply` takes; it must be possible in each order.
    After the actions the host settles, and its `snapshot(*kinds)` must be that of the order in which the actions are
    given: AssertionError with the order, its seed and the difference. An error of an action or of settling has the
    order and its seed as a note. The seed is `seed`, else `$CTRLHOST_SEED`, else
    random; the first order of a seed is always the same, so a run with the reported seed fails at once. `options` are
    settings and other options of the hosts, as for the fixture `ctrlhost_host`. ValueError without actions, kinds or
    runs.
    """
    if not actions or not kinds or runs < 1:
        raise ValueError("converges needs at least one action, one kind and one run")
    plugins = tuple(plugin) if isinstance(plugin, (list, tuple)) else (plugin,)
    usual = list(range(len(actions)))
    expected = _outcome(plugins, actions, usual, kinds, options)
    first = seed if seed is not None else _seed_of_environment()
    for run in range(runs):
        own = first + run
        order = random.Random(own).sample(usual, len(usual))  # noqa: S311 - an order of actions
        try:
            outcome = _outcome(plugins, actions, order, kinds, options)
        except Exception as error:
            error.add_note(_named("it failed in one order", actions, order, own))
            raise
        if outcome != expected:
            raise AssertionError(_report(actions, order, own, expected, outcome))


def _outcome(
    plugins: tuple[object, ...],
    actions: Sequence[Action],
    order: Sequence[int],
    kinds: Sequence[KindRef[Any]],
    options: Mapping[str, Any],
) -> str:
    with ExitStack() as stack:
        server = stack.enter_context(start_server(rbac=bool(options.get("least_privilege"))))
        host = HostUnderTest(server, plugins, **options)
        stack.callback(host.stop)
        host.start(check=True)
        for number in order:
            action = actions[number]
            if callable(action):
                action(host)
            else:
                host.apply(action)
        host.settle()
        return host.snapshot(*kinds)


def _seed_of_environment() -> int:
    text = os.environ.get("CTRLHOST_SEED", "")
    return int(text) if text else random.randrange(2**32)  # noqa: S311


def _report(actions: Sequence[Action], order: Sequence[int], seed: int, expected: str, outcome: str) -> str:
    diff = difflib.unified_diff(
        expected.splitlines(), outcome.splitlines(), "the given order", "this order", lineterm=""
    )
    return "\n".join([_named("the outcome depends on the order of the actions", actions, order, seed), *diff])


def _named(what: str, actions: Sequence[Action], order: Sequence[int], seed: int) -> str:
    """Return what happened, with the order and how to repeat it."""
    places = (f"  {place}. {_name(actions[number], number)}" for place, number in enumerate(order, 1))
    return "\n".join([f"{what}; repeat this order with CTRLHOST_SEED={seed}:", *places])


def _name(action: Any, number: int) -> str:
    if callable(action):
        code = getattr(action, "__code__", None)
        name = getattr(action, "__qualname__", type(action).__name__)
        return f"action {number + 1}: {name}" + (f" (line {code.co_firstlineno})" if code is not None else "")
    text = " ".join(str(action).split())
    return f"action {number + 1}: apply {text[:100]}{'…' if len(text) > 100 else ''}"
