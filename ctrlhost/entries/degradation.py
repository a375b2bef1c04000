"""The reasons for which a plugin may be degraded: a closed set, so that they can be labels of metrics."""

from __future__ import annotations

from typing import Literal, NamedTuple

Reason = Literal[
    "errors",
    "forbidden",
    "waiting",
    "slow",
    "hot-loop",
    "blocked-loop",
    "backlog",
    "ownership",
    "deletion",
    "over-budget",
    "paused",
]

REASONS: tuple[Reason, ...] = (
    "errors", "forbidden", "waiting", "slow", "hot-loop", "blocked-loop", "backlog", "ownership", "deletion",
    "over-budget", "paused"
)  # fmt: skip


class Degradation(NamedTuple):
    """Why a plugin is degraded, in one line, and since when, in seconds since the epoch."""

    message: str
    since: float
