"""Health checks, and their report in the format of the API server; `host/inspection` selects those of each endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a health report; `detail` is the reason of a failure, or further information."""

    name: str
    passed: bool
    detail: str = ""
    #: Whether a failure makes the report one; else the line only informs.
    decides: bool = True

    def __str__(self) -> str:
        """Return the line as the API server writes it, followed by the detail, which that server withholds."""
        verdict = f"[{'+' if self.passed else '-'}]{self.name} {'ok' if self.passed else 'failed'}"
        return f"{verdict}: {' '.join(self.detail.split())}" if self.detail else verdict


def report(endpoint: str, checks: Iterable[Check], *, verbose: bool) -> tuple[int, str]:
    """Return status and body: 200 `ok`, with every line if `verbose`, or 503 with every line."""
    lines = list(checks)
    passed = all(check.passed for check in lines if check.decides)
    if passed and not verbose:
        return 200, "ok"
    verdict = f"{endpoint} check {'passed' if passed else 'failed'}"
    return 200 if passed else 503, "\n".join([*map(str, lines), verdict, ""])
