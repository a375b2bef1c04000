"""Skips in CI, where each test must run unless the machine lacks something that CI cannot install."""

from __future__ import annotations

import pytest

#: Reasons that hold in CI as well: only another machine could run the test, or the run has failed anyway. These are the
#: beginnings of their texts.
ALLOWED = (
    "this machine has no IPv6",
    "this machine has no Maven and JDK",
    "only root can run a process as another user",
    "this machine lets no process mount a file system for itself",
    "a test beside this one failed",
)


def fail_if_avoidable(report: pytest.TestReport) -> None:
    """Turn the report of a skipped test into a failure, unless its reason is allowed."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if reason.startswith(ALLOWED):
        return
    report.outcome = "failed"
    report.longrepr = f"skipped in CI: {reason}. Install what the test needs, or allow the reason in {__name__}."
