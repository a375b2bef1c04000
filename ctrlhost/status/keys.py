"""Why a key is not being reconciled: the first verdict that applies, and the facts for it."""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlhost.controller.history import RUNS as KEPT_RUNS
from ctrlhost.controller.key_text import key_text
from ctrlhost.controller.sentences import counted
from ctrlhost.errors import CtrlhostError
from ctrlhost.request import Request
from ctrlhost.status.key_object import key_object, live_object
from ctrlhost.status.model import KeyFailure, KeyObject, KeyStatus, Reconcile, Verdict, moment
from ctrlhost.status.problem import StatusProblem
from ctrlhost.status.snapshot import shown_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.cache import Object
    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.history import Failure, Run
    from ctrlhost.controller.source import KindSource
    from ctrlhost.informers import Informer
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.status.lookups import Asked
    from ctrlhost.status.snapshot import ReadHost
    from ctrlhost.status.writes import WriteLog
    from ctrlhost.supervisor.runtime import PluginRuntime
    from ctrlhost.workqueue import KeyState

#: The runs of a key that are shown.
RUNS = 50
#: Seconds for the plugin's predicates.
_PREDICATES = 0.5
#: Running keys that the facts of a queued one name.
_OCCUPANTS = 4


class Answer(NamedTuple):
    """A verdict with its facts; `since` is in seconds ago."""

    verdict: Verdict
    facts: Sequence[str]
    since: float | None = None
    due: float | None = None
    position: int | None = None


def explain(
    host: ReadHost,
    plugin: PluginRuntime,
    controller: Controller | None,
    text: str,
    *,
    lookups: Asked,
    writes: WriteLog,
) -> KeyStatus:
    """Return the status of the key that is written as `text`.

    `controller` is None if its plugin does not run, so that its controllers are unknown. `lookups` ask the server
    for the object. StatusProblem for a key that no object of the controller's kind can have.
    """
    answer = _of_host(host, plugin, controller)
    runs: list[Run] = []
    obj: KeyObject | None = None
    failing: KeyFailure | None = None
    if controller is not None:
        key, state = find_key(controller, text)
        runs = controller.history.runs_of(key)[:RUNS]
        failing = key_failure(controller, key)
        answer = (
            answer
            or _of_shards(controller, key)
            or _of_queue(controller, key, state)
            or _of_cache(plugin, controller, key, runs, lookups)
        )
        obj = key_object(plugin, controller, key, lookups)
        text = key_text(key)
    if answer is None:
        answer = Answer("unknown key", [f"plugin {plugin.name} has no such controller now"])
    now = time.time()
    return KeyStatus(
        verdict=answer.verdict,
        facts=list(answer.facts),
        since=None if answer.since is None else moment(now - answer.since),
        due_seconds=answer.due,
        position=answer.position,
        reconciles=reconciles(controller, runs),
        writes=[shown_write(write) for write in writes.of_key(controller.name, text)] if controller is not None else [],
        object=obj,
        failing=failing,
    )


def reconciles(controller: Controller | None, runs: Sequence[Run]) -> list[Reconcile]:
    """Return runs as they are shown."""
    if controller is None:
        return []
    # Runs have the time of the host's clock.
    ahead = time.time() - controller.history.now()
    return [
        Reconcile(key_text(run.key), moment(run.started + ahead), run.seconds, run.result, run.reconcile_id, run.error)
        for run in runs
    ]


def key_failure(controller: Controller, key: Any) -> KeyFailure | None:
    """Return the failures of a key since its last success; None without any. This reads source files."""
    failure = controller.history.failure(key)
    if failure is None:
        return None
    # Failures have the time of the host's clock.
    ahead = time.time() - controller.history.now()
    return KeyFailure(
        failures=failure.failures,
        since=moment(failure.since + ahead),
        last=moment(failure.at + ahead),
        cause=failure.cause.id,
        error=failure.error,
        place=failure.place,
        reconcile_id=failure.reconcile_id,
        traceback=failure.trace.text() if failure.trace is not None else "",
    )


def find_key(controller: Controller, text: str) -> tuple[Any, KeyState]:
    """Return the key that a text names, and where it is: of the keys with this text one that is known somewhere."""
    parts = text.split("/")
    candidates: list[Any] = [Request(parts[-1], *parts[-2:-1], *parts[-3:-2])] if len(parts) <= 3 else []
    candidates.append(text)
    if len(text) <= 1000 and text.isascii() and text.removeprefix("-").isdigit():
        candidates.append(int(text))
    states = [(key, controller.queue.look(key)) for key in candidates]
    for key, state in states:
        known = state.queued or state.processing or state.delayed or controller.history.failure(key)
        if known or any(run[0] == key for run in controller.history.runs.copy()):
            return key, state
    return states[0]


def _of_host(host: ReadHost, plugin: PluginRuntime, controller: Controller | None) -> Answer | None:
    if host.stopping.is_set():
        return Answer("host stopping", ["the host drains: running reconciles end, and no further one begins"])
    waits = controller.waiting() if controller is not None else None
    if controller is None or waits or plugin.state not in ("running", "waiting"):
        facts = [f"plugin {plugin.name} is {plugin.state}{f': {plugin.reason}' if plugin.reason else ''}"]
        if waits and waits not in plugin.reason:
            facts.append(f"controller {controller.name if controller else ''} waits: {waits}")
        facts += [f"missing right: {rule}" for rule in plugin.missing_rights]
        return Answer("plugin not running", facts, time.time() - plugin.since)
    if (paused := controller.pause_state) is not None:
        why = f": {paused.reason}" if paused.reason else ""
        fact = f"controller {controller.name} was paused by {paused.by}{why}"
        return Answer("paused", [fact], time.time() - paused.since)
    if not controller.leading:
        return Answer("standby", [f"{controller.leader or 'no replica'} leads; this replica stands by"])
    return None


def _of_shards(controller: Controller, key: Any) -> Answer | None:
    """Return who has a key that this replica does not run, since replicas share the keys; None if it runs it."""
    if not controller.sharded or type(key) is not Request or controller.owns(key):
        return None
    return Answer("standby", [controller.owner_of(key)])


def _of_queue(controller: Controller, key: Any, state: KeyState) -> Answer | None:
    failure = controller.history.failure(key)
    if (held := state.processing) is not None:
        again = [] if held.again is None else [f"it was added again, and runs once more (priority {held.again})"]
        return Answer("processing", [*_running(controller, key), *again], held.running)
    if (queued := state.queued) is not None:
        place = "the place in a large or fair queue is not counted"
        position = None if state.ahead is None else state.ahead + 1
        if position is not None:
            place = f"position {position} of {controller.queue.page('queued', 0).total}"
        facts = [f"{place}, priority {queued.priority}", *_occupants(controller), *_last_error(failure)]
        return Answer("queued", facts, queued.age, 0.0, position)
    if (delayed := state.delayed) is not None:
        due = f"next run in {delayed.due_in:.1f} s"
        if delayed.back_off or (failure is not None and not failure.terminal):
            count = failure.failures if failure is not None else delayed.failures
            since = None if failure is None else controller.history.now() - failure.at
            return Answer(
                "backing off", [f"{counted(count, 'failure')}, {due}", *_last_error(failure)], since, delayed.due_in
            )
        return Answer("delayed", [f"its last result asked for another run: {due}"], None, delayed.due_in)
    if failure is not None and failure.terminal:
        facts = ["TerminalError: no run until the object changes", *_last_error(failure)]
        return Answer("gave up", facts, controller.history.now() - failure.at)
    return None


def _running(controller: Controller, key: Any) -> list[str]:
    for run in controller.running():
        if run.key == key:
            return [f"run {run.reconcile_id} at {run.where or 'its end'}"]
        if key in run.behind:
            return [f"handed out; its worker runs {key_text(run.key)} first"]
    return ["its run begins or ends now"]


def _occupants(controller: Controller) -> list[str]:
    running = controller.running()
    if not running:
        return ["the workers are about to take keys"]
    return [
        f"a worker runs {key_text(run.key)} for {run.seconds:.1f} s, at {run.where}" for run in running[:_OCCUPANTS]
    ]


def _last_error(failure: Failure | None) -> list[str]:
    if failure is None:
        return []
    place = f" ({failure.place})" if failure.place else ""
    return [f"last error: {failure.error}{place}, reconcile {failure.reconcile_id}"]


def _of_cache(plugin: PluginRuntime, controller: Controller, key: Any, runs: Sequence[Run], lookups: Asked) -> Answer:
    informer, context = controller.primary, plugin.context
    if informer is None or context is None or type(key) is not Request:
        return _of_runs(controller, key, runs) or Answer("unknown key", _unknown(controller))
    source: KindSource = next(source for source in controller.sources if source.is_primary)  # type: ignore[assignment]
    if not runs:
        _check(context, source, key)
    if not informer.covers(key.namespace):
        where = controller.options.namespaces or context.services.namespaces or source.namespaces or ()
        return Answer("filtered", [f"namespace `{key.namespace}` is not among those of {controller.name}: {where}"])
    cached = informer.lister.get(key.name, key.namespace)
    if cached is None:
        return _not_cached(context, informer, source, key, lookups)
    if (ran := _of_runs(controller, key, runs)) is not None:
        return ran
    kept = len(controller.history.runs)
    forgets = kept >= KEPT_RUNS
    unseen = f"not among the last {kept} runs" if forgets else f"not among the {kept} runs since the start"
    passes = lambda: _passes(context, controller, source, cached)  # noqa: E731
    passed = lookups.ask((controller.name, key, cached.resource_version), passes)
    if passed is None:
        return Answer("done", [unseen, "whether it is filtered is unknown: a predicate of the source does not answer"])
    if not passed:
        dropped = "a predicate of the source drops the addition of this object"
        return Answer("filtered", [dropped, f"{unseen}, before which it may have run"] if forgets else [dropped])
    return Answer("done", [unseen])


def _check(context: PluginContext, source: KindSource, key: Request) -> None:
    """Check that an object of the kind may have this key; StatusProblem if none can."""
    resource = context.scope.account.resources.last_known(source.api_version, source.kind)
    namespaced = bool(key.namespace) if resource is None else resource.namespaced
    form = f"{key.namespace or 'default'}/{key.name}" if namespaced else key.name
    if key_text(key) != form or any(character.isspace() for character in form):
        right = "NAMESPACE/NAME" if namespaced else "NAME"
        example = "" if any(character.isspace() for character in form) else f", such as `{form}`"
        raise StatusProblem(400, f"no {source.kind} has the key `{key_text(key)}`", f"write it as {right}{example}")


def _of_runs(controller: Controller, key: Any, runs: Sequence[Run]) -> Answer | None:
    """Return what the last run of a key that waits for nothing says."""
    if not runs:
        return None
    last = runs[0]
    ago = controller.history.now() - last.started - last.seconds
    return Answer("done", [f"run {last.reconcile_id} of {key_text(key)} ended in {last.result} {ago:.1f} s ago"], ago)


def _unknown(controller: Controller) -> list[str]:
    runs = len(controller.history.runs)
    return [f"{controller.name} has no such key in its queue, and none of its last {runs} runs was of it"]


def _not_cached(context: PluginContext, informer: Informer, source: KindSource, key: Request, lookups: Asked) -> Answer:
    state = f"informer {informer.key}: {informer.state}" + (f": {informer.reason}" if informer.reason else "")
    if not informer.has_synced:
        return Answer("not in the cache", [state, "its first list is not complete"])
    selectors = {"labels": source.label_selector, "fields": source.field_selector}
    chosen = ", ".join(f"{what} `{selector}`" for what, selector in selectors.items() if selector)
    exists = lookups.ask((source.api_version, source.kind, key), lambda: _exists(context, source, key))
    if exists and chosen:
        return Answer("filtered", [f"the object exists, but the source selects only {chosen}"])
    if exists:
        return Answer("not in the cache", [state, "the server has the object; its event has not come yet"])
    if exists is None:
        return Answer("not in the cache", [state, "the server cannot be asked whether the object exists"])
    return Answer("not in the cache", [state, "the server has no such object"])


def _exists(context: PluginContext, source: KindSource, key: Request) -> bool | None:
    """Return whether the server has the object; None if it does not answer."""
    try:
        return live_object(context, source, key) is not None
    except (CtrlhostError, ValueError):
        return None


def _passes(context: PluginContext, controller: Controller, source: KindSource, obj: Object) -> bool | None:
    """Return whether the predicates pass the addition of an object, also if they raise; None if they take long.

    They run for one object of a controller at a time, so that one that hangs takes no more than one thread.
    """
    if not source.predicates:
        return True
    if not controller.explaining.acquire(timeout=_PREDICATES):
        return None
    answer: Future[bool] = Future()
    entry = context.scope.entries.open("predicate", controller=controller.name, costs_thread=False)

    def ask() -> None:
        try:
            with entry:
                answer.set_result(all(predicate(None, obj) for predicate in source.predicates))
        except BaseException:  # noqa: BLE001 - a predicate that raises passes
            answer.set_result(True)
        finally:
            entry.close()
            controller.explaining.release()

    try:
        Thread(target=ask, name=f"{context.name}/explain", daemon=True).start()
    except RuntimeError:
        # There are too many threads.
        entry.close()
        controller.explaining.release()
        return None
    wait([answer], _PREDICATES)
    return answer.result() if answer.done() else None
