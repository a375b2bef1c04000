"""A program in a real terminal: tmux, which draws what the program sends."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Self

import pytest

from tests.support.processes import children_of
from tests.support.waiting import eventually

_numbers = itertools.count()
#: What the shell prints after the program, with its exit code.
_ENDED = "ended with"
#: Prints `echo` if the terminal shows what is typed, else `-echo`.
_ECHO = r"stty -a | tr ' ' '\n' | grep -x -- '-*echo'"


class Terminal:
    """A terminal of tmux with a program in it, whose screen is read as text."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], width: int = 80, height: int = 24
    ) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not installed")
        self._server = f"ctrlhost-{os.getpid()}-{next(_numbers)}"
        # Ctrl-C reaches the shell, too.
        parts = ["trap : INT", "echo before", shlex.join(command), f"echo {_ENDED} $?", _ECHO, "exec sleep 600"]
        kept = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
        # readline sets the size for the children of a process, such as those of pytest.
        left_out = {"TMUX", "COLUMNS", "LINES"}
        self._environment = kept | {key: value for key, value in environment.items() if key not in left_out}
        size = ["-x", str(width), "-y", str(height)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, shlex.join(["sh", "-c", "; ".join(parts)]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-L", self._server, *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    @property
    def text(self) -> str:
        """What the screen shows."""
        return self._tmux("capture-pane", "-p")

    @property
    def lines(self) -> list[str]:
        return self.text.rstrip("\n").split("\n")

    @property
    def raw(self) -> str:
        """What the screen shows, with escape sequences for its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    def press(self, *keys: str) -> None:
        """Press keys by their names in tmux, or type texts."""
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program, which is the only child of the shell."""
        shell = int(self._tmux("display-message", "-p", "#{pane_pid}"))
        (program,) = children_of(shell)
        os.kill(program.pid, number)

    def wait_for(self, *texts: str, without: Sequence[str] = ()) -> list[str]:
        """Wait until the screen has each of `texts` and none of `without`; return its lines."""

        def lines_with() -> list[str]:
            text = self.text
            complete = all(part in text for part in texts) and not any(part in text for part in without)
            return text.rstrip("\n").split("\n") if complete else []

        try:
            lines: list[str] = eventually(lines_with, 60, pause=0.05)
        except AssertionError:
            raise AssertionError(f"the terminal has no {texts}, or one of {without}:\n{self.text}") from None
        return lines

    def line(self, begin: str) -> str:
        """Return the line that begins so."""
        return next((line for line in self.lines if line.startswith(begin)), "")

    def ended(self) -> int:
        """Wait for the end of the program and return its exit code; the terminal is as it was before."""
        lines = self.wait_for("before", _ENDED, "echo")
        assert lines[0] == "before"
        assert lines[-1] == "echo", "the program left a terminal that does not echo"
        state = self._tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").split()
        assert state == ["0", "1"], "the program left its screen, or a hidden cursor"
        return int(self.line(_ENDED).removeprefix(_ENDED))
