"""`ctrlhost run` as a process of its own, for tests that need signals, exit codes or an outage."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

LIMIT = 60.0


class HostProcess:
    """A running host; its log lines are kept, and a test waits for one instead of sleeping."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "ctrlhost", "run", "--listen", "127.0.0.1:0", *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """Everything the host logged so far."""
        with self._news:
            return "".join(self._lines)

    def wait_for_log(self, pattern: str) -> str:
        """Wait for a line that the pattern matches; the line."""
        found: list[str] = []

        def arrived() -> bool:
            found[:] = [line for line in self._lines if re.search(pattern, line)]
            return bool(found) or self._process.poll() is not None

        with self._news:
            self._news.wait_for(arrived, LIMIT)
        assert found, f"no line of the log matches {pattern!r}:\n{self.log[-4000:]}"
        return found[0]

    @property
    def address(self) -> str:
        """Where the host serves probes and metrics."""
        line = self.wait_for_log(r"listening on http://")
        match = re.search(r"http://[\d.:]+\d", line)
        assert match is not None
        return match[0]

    def get(self, path: str) -> tuple[int, str]:
        """Ask the host's server; status and body."""
        try:
            with urllib.request.urlopen(f"{self.address}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end; the exit code."""
        return self._process.wait(LIMIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(LIMIT)
        self._reader.join(LIMIT)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


def json_lines(text: str) -> list[dict[str, object]]:
    """The JSON objects of a log."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
