"""A `ctrlhost run` as a process of its own: what it logs, what it serves, how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LIMIT = 60.0


class HostProcess:
    """A running host. Each wait is for a condition, `LIMIT` seconds at most."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str]) -> None:
        self._changed = threading.Condition()
        self.lines: list[dict[str, Any]] = []
        self.output: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ctrlhost", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.output.append)),
            threading.Thread(target=self._read, args=(self.process.stderr, self._take_line)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Any, take: Callable[[str], None]) -> None:
        for line in stream:
            with self._changed:
                take(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _take_line(self, line: str) -> None:
        try:
            self.lines.append(json.loads(line))
        except ValueError:
            self.lines.append({"msg": line, "level": "plain"})

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        with self._changed:
            found = (
                self._changed.wait_for(lambda: condition() or self.process.poll() is not None, LIMIT) and condition()
            )
        assert found, f"{what} did not come about; the process {self.process.poll()} said:\n{self.text}"
        return found

    def line(self, text: str, *, after: int = 0) -> dict[str, Any]:
        """Wait for a log line that has `text` in its message, and is not one of the first `after` lines."""
        found: dict[str, Any] = self.wait_for(
            lambda: next((line for line in self.lines[after:] if text in line["msg"]), None), f"a line with {text!r}"
        )
        return found

    @property
    def text(self) -> str:
        return "\n".join(str(line.get("exception", line["msg"])) for line in list(self.lines))

    @property
    def kubeconfig(self) -> str:
        line: str = self.wait_for(
            lambda: next((line for line in self.output if line.startswith("kubeconfig: ")), None), "a kubeconfig"
        )
        return line.removeprefix("kubeconfig: ")

    @property
    def address(self) -> str:
        message: str = self.line("listening on http://")["msg"]
        return message.rpartition("//")[2]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=LIMIT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, name: str, /, **labels: str) -> float | None:
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return None

    def eventually(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for something that no log line announces."""
        deadline, pause = time.monotonic() + LIMIT, threading.Event()
        while not (found := condition()):
            assert time.monotonic() < deadline, f"{what} did not come about; the process said:\n{self.text}"
            assert self.process.poll() is None, f"{what} did not come about; the process ended and said:\n{self.text}"
            pause.wait(0.02)
        return found

    def counts(self, least: float, name: str, /, **labels: str) -> None:
        """Wait until a metric is at least so much."""
        self.eventually(lambda: (self.metric(name, **labels) or 0) >= least, f"{name}{labels} >= {least}")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def signal_until_it_ends(self, number: signal.Signals) -> None:
        """Repeat a signal, since the host takes two in quick succession for one."""
        deadline = time.monotonic() + LIMIT
        while self.process.poll() is None and time.monotonic() < deadline:
            self.signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.2)

    def wait(self) -> int:
        """Wait for the end and give the exit code."""
        code = self.process.wait(LIMIT)
        for reader in self._readers:
            reader.join(LIMIT)
        return code

    def stop(self) -> int:
        """Ask it to stop and give the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """Make sure that it has gone."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
