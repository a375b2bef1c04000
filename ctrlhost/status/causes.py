"""The causes for which keys fail, as they are shown, and the one word for the state of a controller or plugin."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from ctrlhost.controller.key_text import key_text
from ctrlhost.controller.sentences import keys_fail
from ctrlhost.status import model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost.controller.causes import Cause
    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.severity import Outcomes, Severity
    from ctrlhost.supervisor.runtime import PluginRuntime

#: The causes of a snapshot, and the keys of one that are named.
CAUSES, KEYS = 50, 20
#: Seconds for which a cause is shown for which no key fails any more.
RECENT = 600.0
#: The order of severities, the worst first.
SEVERITIES: tuple[Severity, ...] = ("failing", "degraded", "ok")


def cause_rows(controllers: Iterable[Controller]) -> list[model.Cause]:
    """Return the causes of controllers, the worst first; of those that stand by none."""
    return worst_causes(
        [
            shown_cause(cause, controller)
            for controller in controllers
            if controller.leading
            for cause in controller.history.causes.worst(CAUSES)
            if _is_recent(cause, controller)
        ]
    )


def worst_causes(causes: Iterable[model.Cause]) -> list[model.Cause]:
    """Return the worst of some causes, the worst first: those with the most failing keys, then the last ones."""
    return sorted(sorted(causes, key=lambda cause: cause.last, reverse=True), key=lambda cause: -cause.keys)[:CAUSES]


def cause_page(controller: Controller) -> model.CausePage:
    """Return the causes of a controller with their tracebacks. This reads source files."""
    causes = [cause for cause in controller.history.causes.worst() if _is_recent(cause, controller)]
    items = [
        model.CauseDetail(
            shown_cause(cause, controller),
            cause.trace.text() if cause.trace is not None else "",
            [key_text(key) for key in controller.history.failing_keys(0, KEYS, cause.id)],
        )
        for cause in causes[:CAUSES]
    ]
    return model.CausePage(items, len(causes))


def _is_recent(cause: Cause, controller: Controller) -> bool:
    return cause.keys > 0 or controller.history.now() - cause.last < RECENT


def shown_cause(cause: Cause, controller: Controller) -> model.Cause:
    """Return a cause as it is shown."""
    # Failures have the time of the host's clock.
    now = controller.history.now()
    ahead = time.time() - now
    return model.Cause(
        id=cause.id,
        controller=cause.controller,
        type=cause.kind,
        place=cause.place,
        text=cause.text,
        keys=cause.keys,
        failures=cause.failures,
        per_second=round(cause.per_second(now), 3),
        first=model.moment(cause.first + ahead),
        last=model.moment(cause.last + ahead),
        key=key_text(cause.key),
        error=cause.error,
        reconcile_id=cause.reconcile_id,
    )


def shown_outcomes(outcomes: Outcomes, now: float) -> model.Outcomes:
    """Return keys by their last runs as they are shown; `now` is the time of the host's clock."""
    since = None if outcomes.since is None else model.moment(time.time() - now + outcomes.since)
    sentence = keys_fail(outcomes.failing, outcomes.keys, outcomes.causes)
    return model.Outcomes(outcomes.keys, outcomes.failing, outcomes.causes, since, sentence)


def sum_of(outcomes: Sequence[model.Outcomes]) -> model.Outcomes:
    """Return the keys of several controllers, which are told apart although an object may be in several."""
    keys, failing, causes = (
        sum(getattr(outcome, name) for outcome in outcomes) for name in ("keys", "failing", "causes")
    )
    since = min((outcome.since for outcome in outcomes if outcome.since is not None), default=None)
    return model.Outcomes(keys, failing, causes, since, keys_fail(failing, keys, causes))


def worst_of(severities: Iterable[Severity]) -> Severity:
    """Return the worst severity."""
    return min(severities, key=SEVERITIES.index, default="ok")


def state_of(
    controller: Controller, severity: Severity
) -> Literal["standby", "waiting", "paused", "failing", "degraded", "ok"]:
    """Return the one word for the state of a controller."""
    if not controller.leading:
        return "standby"
    if controller.waiting():
        return "waiting"
    return "paused" if controller.paused else severity


def condition_of(plugin: PluginRuntime, controllers: Sequence[model.ControllerStatus], severity: Severity) -> str:
    """Return the one word for the state of a plugin with these controllers."""
    if plugin.state != "running":
        return plugin.state
    if severity != "ok":
        return severity
    for word in ("paused", "standby"):
        if controllers and all(controller.state == word for controller in controllers):
            return word
    return plugin.state


def severity_of(plugin: PluginRuntime, controllers: Sequence[model.ControllerStatus]) -> Severity:
    """Return how bad the state of a plugin with these controllers is."""
    if plugin.state in ("failing", "failed"):
        return "failing"
    worst = worst_of(controller.severity for controller in controllers)
    # An operator has paused it.
    reasons = [reason for reason in plugin.entries.degradations() if reason != "paused"]
    return "degraded" if worst == "ok" and reasons else worst
