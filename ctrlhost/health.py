"""What `/livez`, `/readyz` and `/healthz` answer, in the form that the API server and its probes use."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: How long a request waits for a plugin's own checks, in seconds.
CHECK_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a health report; `detail` is the reason of a failure, or what is worth knowing besides."""

    name: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        """Write the line as the API server does, with the detail that it keeps to itself."""
        verdict = f"[{'+' if self.passed else '-'}]{self.name} {'ok' if self.passed else 'failed'}"
        return f"{verdict}: {' '.join(self.detail.split())}" if self.detail else verdict


def report(endpoint: str, checks: Iterable[Check], *, verbose: bool) -> tuple[int, str]:
    """Give status and body: 200 `ok`, or 503 with every line; the lines of a success only where they are asked for."""
    lines = list(checks)
    passed = all(check.passed for check in lines)
    if passed and not verbose:
        return 200, "ok"
    verdict = f"{endpoint} check {'passed' if passed else 'failed'}"
    return 200 if passed else 503, "\n".join([*map(str, lines), verdict, ""])


class PluginCheck:
    """A health check that a plugin added; it runs on a thread of its own, so that one that hangs is a failure, too."""

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        """Wrap `check`, which raises when it is unhealthy."""
        self.name = name
        self._check = check
        self._lock = threading.Lock()
        self._running: _Run | None = None

    def run(self, timeout: float = CHECK_TIMEOUT) -> Check:
        """Run the check, or wait for the run that is under way; after `timeout` seconds it has failed."""
        with self._lock:
            if self._running is None or self._running.finished.is_set():
                self._running = _Run(self.name, self._check)
            run = self._running
        if not run.finished.wait(timeout):
            return Check(self.name, passed=False, detail=f"no answer within {timeout:g} s")
        return Check(self.name, passed=run.problem is None, detail=run.problem or "")


class _Run:
    def __init__(self, name: str, check: Callable[[], None]) -> None:
        self.finished = threading.Event()
        self.problem: str | None = None
        self._check = check
        threading.Thread(target=self._body, name=f"check {name}", daemon=True).start()

    def _body(self) -> None:
        try:
            self._check()
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its answer
            self.problem = f"{type(error).__name__}: {error}"
        finally:
            self.finished.set()
