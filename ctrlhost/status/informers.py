"""The informers of a host, with who uses each of them and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.informers.view import View
from ctrlhost.status.model import Cost, InformerRow, User

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.informers import Informer
    from ctrlhost.informers.callback_metrics import FunctionMetrics
    from ctrlhost.informers.handle import Handle
    from ctrlhost.plugin.context import PluginContext


def informer_rows(informers: Iterable[Informer], contexts: Iterable[PluginContext]) -> list[InformerRow]:
    """Return a row per watch; users of a part of its objects are users of the watch."""
    users: dict[int, list[User]] = {}
    for context in contexts:
        for informer, user in _users(context):
            users.setdefault(id(_watched(informer)), []).append(user)
    return [_row(informer, users.get(id(informer), [])) for informer in informers if not isinstance(informer, View)]


def _users(context: PluginContext) -> Iterable[tuple[Informer, User]]:
    used: set[int] = set()
    for controller in context.controllers:
        for informer, handle in controller.uses:
            handles = [] if handle is None else [handle]
            used.update(id(handle) for handle in handles)
            yield informer, User(context.name, controller.name, _reads(informer), _cost(handles))
    for chosen in (informer.chosen for informer in context.informers):
        # A request for the status must not make one.
        if chosen is None:
            continue
        own = [handle for handle in chosen.handles if handle.owner == context.name and id(handle) not in used]
        yield chosen, User(context.name, "", _reads(chosen), _cost(own))


def _watched(informer: Informer) -> Informer:
    """Return the informer with the watch that a view reads from."""
    while isinstance(informer, View):
        informer = informer.wide
    return informer


def _row(informer: Informer, users: list[User]) -> InformerRow:
    status = informer.status()
    group, _, version = informer.api_version.rpartition("/")
    parts = informer.parts
    served = informer.client.resources.last_known(informer.api_version, informer.kind)
    return InformerRow(
        id=informer.key,
        resource=served.plural if served is not None else informer.kind.lower(),
        group=group,
        version=version,
        selection=_selection(informer),
        state=status.state,
        reason=status.reason,
        objects=status.objects,
        bytes=status.bytes,
        last_event_seconds=status.last_event_age,
        last_byte_seconds=status.last_byte_age,
        watches=len(parts),
        users=users,
        cost=_cost_of(informer.callback_metrics, informer.pending),
    )


def _selection(informer: Informer) -> str:
    """Return what the informer selects, without what it keeps of each object."""
    words = informer.scope.describe().split(" ")[1:]
    return " ".join(word for word in words if not word.startswith("reads=") and word != "transformed")


def _reads(informer: Informer) -> str:
    """Return what a user reads of which objects; the whole objects if the text is empty."""
    return " ".join(informer.scope.describe().split(" ")[1:])


def _cost(handles: list[Handle]) -> Cost:
    return _cost_of(
        [metric for handle in handles for metric in handle.callback_metrics], sum(handle.pending for handle in handles)
    )


def _cost_of(functions: Iterable[FunctionMetrics], pending: int) -> Cost:
    seconds = {True: 0.0, False: 0.0}
    # A function that several handlers call has one count.
    for counts, use in {id(function.counts): (function.counts, function.use) for function in functions}.values():
        seconds[use == "handler"] += counts.seconds
    return Cost(round(seconds[False], 6), round(seconds[True], 6), pending)
