"""What an operator types: completion in a shell, and the level and the form of the log of `ctrlhost run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.host.conftest import Distributions, StartHost
from tests.support.plugin_sources import hook

pytestmark = pytest.mark.behaviour("oncall/OC15")

TALKS = hook("ctrlhost_setup", "plugin.log.debug('a detail'); plugin.log.info('a fact')")
COMPLETE = """
eval "$(ctrlhost completion bash)"
complete -p ctrlhost
COMP_WORDS=(ctrlhost explain-k); COMP_CWORD=1
_ctrlhost_completion ctrlhost
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_bash_completes() -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE],
        env={"PATH": path, "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    registered, name = done.stdout.splitlines()
    assert registered.endswith("-F _ctrlhost_completion ctrlhost")
    assert name == "explain-key"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(ctrlhost: Any, shell: str) -> None:
    done = ctrlhost("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_CTRLHOST_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("options", "debug"),
    [((), False), (("-v",), True), (("--log-level=debug",), True), (("-v", "--log-level=debug"), True)],
)
def test_the_level_of_the_log(
    start_host: StartHost, distributions: Distributions, options: tuple[str, ...], debug: bool
) -> None:
    distributions.add("talks", TALKS)
    host = start_host("--sandbox", *options, plugins="talks")
    host.line("a fact")
    assert any(line["msg"] == "a detail" for line in host.lines) == debug


def test_lines_below_the_level_are_left_out(start_host: StartHost, distributions: Distributions) -> None:
    distributions.add("talks", hook("ctrlhost_setup", "plugin.log.info('a fact'); plugin.log.warning('a warning')"))
    host = start_host("--sandbox", "--log-level=warning", "--set=host.log_level=debug", plugins="talks")
    # The flag precedes the setting.
    host.line("a warning")
    assert host.stop() == 0
    assert {line["level"] for line in host.lines} <= {"warning", "error", "plain"}


@pytest.mark.parametrize("form", ["console", "json"])
def test_the_form_of_the_log(start_host: StartHost, distributions: Distributions, form: str) -> None:
    distributions.add("talks", TALKS)
    host = start_host("--sandbox", f"--log-format={form}", plugins="talks")
    line = host.line("a fact")
    # What is not JSON has no level.
    assert line["level"] == ("plain" if form == "console" else "info")
