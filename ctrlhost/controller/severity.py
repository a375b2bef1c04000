"""How bad it is that keys of a controller fail: the one definition that pages, commands, metrics and alerts share."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["failing", "degraded", "ok"]

#: Seconds for which a key may fail before its controller is degraded.
DEGRADED_AFTER = 300.0
#: The runs in a row that make a controller failing.
RUNS = 20
#: Fewer failing keys than these make a controller failing after a while only: one of two keys may fail now and then.
_FEW, _FEW_AFTER = 10, 60.0


class Outcomes(NamedTuple):
    """The keys of a controller by their last runs. Keys count, not runs."""

    #: The keys with a recent outcome.
    keys: int = 0
    #: Those whose last run failed.
    failing: int = 0
    #: The causes for which they fail.
    causes: int = 0
    #: When the first of them began to fail, in seconds of the host's clock; None if none fails.
    since: float | None = None
    severity: Severity = "ok"
    #: How long the first of them has failed; 0 if none does.
    seconds: float = 0.0


def severity(keys: int, failing: int, seconds: float, in_a_row: int) -> Severity:
    """Return how bad it is that some keys fail, the first of them for so many seconds.

    `failing`: over half of the keys fail, or the last 20 runs did. Below ten failing keys it takes both, or over half
    of the keys for a minute. `degraded`: a key has failed for 5 minutes. `in_a_row` are the runs
    since the last one that did not fail.
    """
    if not failing:
        return "ok"
    most = 2 * failing > keys
    all_of_late = in_a_row >= RUNS
    if (most or all_of_late) if failing >= _FEW else (most and (all_of_late or seconds >= _FEW_AFTER)):
        return "failing"
    return "degraded" if seconds >= DEGRADED_AFTER else "ok"
