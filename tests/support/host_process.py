"""`ctrlhost run`, or `ctrlhost dev`, in its own process: its log, its server and its exit code."""

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
from typing import TYPE_CHECKING, Any, Self

from prometheus_client.parser import text_string_to_metric_families

from tests.support.fork_server import Process, start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LIMIT = 60.0


class HostProcess:
    """A running host on a free port. Each wait is for a condition, `LIMIT` seconds at most."""

    def __init__(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        process_group: int | None = None,
        prefix: Sequence[str] = (),
        command: str = "run",
        forked: bool = True,
    ) -> None:
        """Start it with these arguments, after the words `prefix` of a command that becomes it.

        `command` is `run`, or another one that runs a host. It is forked from a process that has imported
        everything; with a prefix, or without `forked`, it is a new interpreter.
        """
        self._changed = threading.Condition()
        self.lines: list[dict[str, Any]] = []
        self.output: list[str] = []
        words = [command, "--listen=127.0.0.1:0", *arguments]
        self.process: Process
        if forked and not prefix:
            self.process = start(words, env=environment, process_group=process_group)
        else:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "ctrlhost", *words],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=process_group,
            )
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.output.append)),
            threading.Thread(target=self._read, args=(self.process.stderr, self._take_line)),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self, stream: Any, take: Callable[[str], None]) -> None:
        for line in stream:
            with self._changed:
                take(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _take_line(self, line: str) -> None:
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        # A plugin may write anything to stderr.
        self.lines.append(fields if isinstance(fields, dict) else {"msg": line, "level": "plain"})

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        with self._changed:
            result = (
                self._changed.wait_for(lambda: condition() or self.process.poll() is not None, LIMIT) and condition()
            )
        assert result, f"no {what}; exit code {self.process.poll()}, log:\n{self.text}"
        return result

    def line(self, *texts: str, after: int = 0) -> dict[str, Any]:
        """Wait for a log line after the first `after` ones whose message contains each of `texts`."""
        entry: dict[str, Any] = self.wait_for(
            lambda: next((line for line in self.lines[after:] if all(text in line["msg"] for text in texts)), None),
            f"a line with {texts!r}",
        )
        return entry

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
        """Wait for a condition that no log line announces."""
        deadline, pause = time.monotonic() + LIMIT, threading.Event()
        while not (value := condition()):
            assert time.monotonic() < deadline, f"no {what}; log:\n{self.text}"
            assert self.process.poll() is None, f"no {what} before the exit; log:\n{self.text}"
            pause.wait(0.02)
        return value

    def wait_for_metric(self, least: float, name: str, /, **labels: str) -> None:
        """Wait until a metric is at least `least`."""
        self.eventually(lambda: (self.metric(name, **labels) or 0) >= least, f"{name}{labels} >= {least}")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def signal_until_exit(self, number: signal.Signals) -> None:
        """Repeat a signal, since the host counts two in quick succession as one."""
        deadline = time.monotonic() + LIMIT
        while self.process.poll() is None and time.monotonic() < deadline:
            self.signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.2)

    def wait(self) -> int:
        """Wait for the exit and return its code."""
        code = self.process.wait(LIMIT)
        for reader in self._readers:
            reader.join(LIMIT)
        return code

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """Kill the process if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
