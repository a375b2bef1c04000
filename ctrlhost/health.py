"""Health checks, and their report in the format of the API server; `host/inspection` selects those of each endpoint."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Seconds that a request waits for the checks of a plugin.
CHECK_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a health report; `detail` is the reason of a failure, or further information."""

    name: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        """Return the line as the API server writes it, followed by the detail, which that server withholds."""
        verdict = f"[{'+' if self.passed else '-'}]{self.name} {'ok' if self.passed else 'failed'}"
        return f"{verdict}: {' '.join(self.detail.split())}" if self.detail else verdict


def report(endpoint: str, checks: Iterable[Check], *, verbose: bool) -> tuple[int, str]:
    """Return status and body: 200 `ok`, with every line if `verbose`, or 503 with every line."""
    lines = list(checks)
    passed = all(check.passed for check in lines)
    if passed and not verbose:
        return 200, "ok"
    verdict = f"{endpoint} check {'passed' if passed else 'failed'}"
    return 200 if passed else 503, "\n".join([*map(str, lines), verdict, ""])


class PluginCheck:
    """A health check of a plugin, run on its own thread, so that a hanging check fails."""

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        """Wrap `check`, which raises if the plugin is unhealthy."""
        self.name = name
        self._check = check
        self._lock = threading.Lock()
        #: The last run; its result is the reason of its failure, empty for a success.
        self._run: Future[str] | None = None

    def run(self, timeout: float = CHECK_TIMEOUT) -> Check:
        """Run the check, or join the run in progress; it fails after `timeout` seconds. Callable from any thread."""
        with self._lock:
            if self._run is None or self._run.done():
                self._run = Future()
                threading.Thread(target=self._body, args=(self._run,), name=f"check {self.name}", daemon=True).start()
            run = self._run
        try:
            problem = run.result(timeout)
        except TimeoutError:
            problem = f"no answer within {timeout:g} s"
        return Check(self.name, passed=not problem, detail=problem)

    def _body(self, run: Future[str]) -> None:
        try:
            self._check()
        except BaseException as error:  # noqa: BLE001 - any exception is a failure of the check
            run.set_result(f"{type(error).__name__}: {error}")
        else:
            run.set_result("")
