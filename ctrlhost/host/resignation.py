"""Resignation of this replica from the Leases of its plugins, also from those of isolated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ctrlhost.host.admin_requests import ResignAnswer, ResignRequest
from ctrlhost.status.model import Problem
from ctrlhost.status.problem import StatusProblem, unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.host.state import HostState
    from ctrlhost.supervisor.runtime import PluginRuntime

    #: Asks the process of an isolated plugin; None without one.
    Ask = Callable[[PluginRuntime, bytes], tuple[int, bytes] | None]


def resign(host: HostState, request: ResignRequest, ask: Ask) -> ResignAnswer:
    """Stop leading with the Leases of a plugin, or of all; StatusProblem if this replica leads none of them."""
    plugins = [plugin for plugin in host.plugins if request.plugin in (None, plugin.name)]
    if not plugins:
        raise unknown("plugin", str(request.plugin), [plugin.name for plugin in host.plugins])
    if host.stopping.is_set():
        raise StatusProblem(409, "the host stops", None)
    if host.metrics is not None and host.metrics.child and host.leadership is None:
        # The other host leads for this process, and asks whether it is done.
        return ResignAnswer([], 0.0, runs=any(map(_runs, plugins)))
    apart = [plugin for plugin in plugins if host.children is not None and host.children.elects(plugin.name)]
    answers = [answer for plugin in apart if (answer := _asked(plugin, ask)) is not None]
    seconds = max((answer.seconds for answer in answers), default=0.0)
    leases = [lease for answer in answers for lease in answer.leases]
    here = {plugin.name: plugin for plugin in plugins if plugin not in apart}
    if host.leadership is not None and here:
        _reject_shared(host, request)
        leases += host.leadership.resign(here.keys(), lambda name: _runs_anywhere(here[name], ask))
        seconds = max(seconds, host.leadership.resigned_for)
    elif not apart:
        raise StatusProblem(409, "this host runs without leader election", "`--leader-elect` turns it on")
    if not leases:
        leaders = {controller.leader for plugin in plugins for controller in plugin.controllers} - {""}
        hint = f"{', '.join(sorted(leaders))} leads: ask that replica" if leaders else "no replica leads now"
        raise StatusProblem(409, f"this replica does not lead for {request.target}", hint)
    return ResignAnswer(leases, seconds)


def _reject_shared(host: HostState, request: ResignRequest) -> None:
    if request.plugin is None or host.leadership is None:
        return
    if others := [name for name in host.leadership.sharing(request.plugin) if name != request.plugin]:
        raise StatusProblem(
            409,
            f"plugin `{request.plugin}` shares its Lease with {', '.join(others)}",
            "resign without --plugin; `leader_elect_plugins` gives the plugin a Lease of its own",
        )


def _asked(plugin: PluginRuntime, ask: Ask) -> ResignAnswer | None:
    """Return the answer of the plugin's process; None without one, or if it does not lead."""
    answer = ask(plugin, msgspec.json.encode(ResignRequest(plugin.name)))
    if answer is None or answer[0] == 409:
        return None
    if answer[0] != 200:
        problem = msgspec.json.decode(answer[1], type=Problem)
        raise StatusProblem(answer[0], problem.error, problem.hint)
    return msgspec.json.decode(answer[1], type=ResignAnswer)


def _runs_anywhere(plugin: PluginRuntime, ask: Ask) -> bool:
    """Return whether work that needs leadership still runs, here or in the process of the plugin."""
    if not plugin.isolated:
        return _runs(plugin)
    try:
        answer = _asked(plugin, ask)
    except StatusProblem:
        # It hangs.
        return True
    return answer is not None and answer.runs


def _runs(plugin: PluginRuntime) -> bool:
    context = plugin.context
    if context is None:
        return False
    return (
        context.services.candidacy.leading
        or any(controller.options.needs_leader and controller.running() for controller in context.controllers)
        or any(task.needs_leader and task.running for task in context.tasks)
        or bool(context.scope.clients.writes.in_flight.writes)
    )
