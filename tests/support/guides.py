"""The commands of a how-to guide, run as a reader runs them: in order, in one terminal, in an empty folder.

Commands are the fenced blocks `sh`, and the lines after `$` in blocks `console`, whose other lines are the expected
output: `…` stands for any text in a line, and alone for any lines. A comment `<!-- not run: NAME -->` before a block
says that it cannot run here, and `<!-- in a checkout -->` that the reader is told to be in one.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Self

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_BLOCK = re.compile(
    r"^(?: *<!-- (?:not run: (?P<left>\w+)|(?P<checkout>in a checkout)) -->\n)?"
    r" *```(?P<kind>sh|console)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
#: Commands that run until Ctrl-C, and what they print once they can be used.
_FOREGROUND = re.compile(
    r"^(ctrlhost (?:run|dev)|ctrlhost-sandbox(?= --kubeconfig|$)|kubectl (.* )?port-forward)\b(?P<rest>.*)$"
)
_UP = re.compile(r"listening on|Forwarding from|^kubeconfig: ", re.MULTILINE)
LIMIT = 90.0


@dataclass(frozen=True)
class Step:
    """Commands, and their expected output, if the guide shows it."""

    commands: str
    output: str | None
    left_out: str = ""
    in_checkout: bool = False


def steps_of(guide: str) -> list[Step]:
    """Return the commands of a guide."""
    steps = []
    for block in _BLOCK.finditer(guide):
        text, where = dedent(block["text"]), (block["left"] or "", block["checkout"] is not None)
        if block["kind"] == "sh":
            steps.append(Step(text, None, *where))
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            steps.append(Step(command + "\n", output, *where))
    return steps


def matches(output: str, expected: str) -> bool:
    """Return whether an output is the one that a guide shows."""
    lines = []
    for line in expected.strip().splitlines():
        pattern = r"(?:.*\n)*?" if line.strip() == "…" else r".*".join(map(re.escape, line.split("…"))) + r" *\n"
        lines.append(pattern)
    return re.fullmatch("".join(lines), output.strip() + "\n") is not None


class Terminal:
    """A bash that keeps variables and jobs from step to step."""

    def __init__(self, folder: Path, notes: Path, environment: Mapping[str, str]) -> None:
        """Start it in `folder`; `notes` is for what the reader does not see."""
        notes.mkdir()
        self._notes, self._steps = notes, 0
        self._failures = notes / "failures"
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"set -o pipefail -E; trap 'echo \"$? $BASH_COMMAND\" >> {self._failures}' ERR\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the bash with all of its jobs."""
        os.killpg(self._bash.pid, signal.SIGKILL)
        for stream in (self._bash.stdin, self._bash.stdout):
            if stream is not None:
                stream.close()
        self._bash.wait(30)

    def run(self, commands: str, folder: Path | None = None) -> str:
        """Run commands, and return their output. One that runs until Ctrl-C gets it once it is up.

        With `folder`, they run there.
        """
        self._steps += 1
        script, output = (self._notes / f"{self._steps}.{kind}" for kind in ("sh", "out"))
        lines = commands.rstrip().splitlines()
        match = _FOREGROUND.match(lines[-1])
        stays = match is not None and lines[-1].endswith("&")
        if match is not None and not stays:
            lines[-1] += " &"
        script.write_text("\n".join([*lines, ":\n"]))
        there = f"cd {folder} && " if folder else ""
        self._send(f"{there}. {script} > {output} 2>&1 < /dev/null{'; cd - > /dev/null' if folder else ''}")
        if match is not None:
            eventually(lambda: _UP.search(output.read_text()), LIMIT, lines[-1], pause=0.02)
        if match is not None and not stays:
            # Jobs of a bash without a terminal ignore SIGINT, but the host takes both signals alike.
            self._send("kill -TERM $!; wait $! || true")
        return output.read_text()

    def failures(self) -> list[str]:
        """Return the exit codes and commands that failed since the last call."""
        if not self._failures.exists():
            return []
        lines = self._failures.read_text().splitlines()
        self._failures.unlink()
        return lines

    def _send(self, line: str) -> None:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{line}\necho done\n")
        self._bash.stdin.flush()
        timer = threading.Timer(LIMIT, self._bash.kill)
        timer.start()
        try:
            assert self._bash.stdout.readline() == "done\n", f"{line}: not within {LIMIT:g} s"
        finally:
            timer.cancel()
