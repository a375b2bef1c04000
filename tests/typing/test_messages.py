"""What type checkers say of an author's mistake: at the line of the function, in terms of what it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing.test_pyright import ROOT, pyright_of

HEAD = '''
import msgspec

import ctrlhost


class Spec(msgspec.Struct, frozen=True):
    size: int = 1


@ctrlhost.resource("cache.example.com/v1alpha1")
class Memcached(ctrlhost.Model[Spec, ctrlhost.ModelStatus]):
    """A model."""


class Pod(msgspec.Struct, frozen=True):
    """Another one."""


plugin = ctrlhost.Plugin()


@plugin.controller(Memcached)
def reconcile(ctx: ctrlhost.Context[Memcached, None], mc: Memcached) -> None: ...


'''
#: Each of a `def`, with a decorator that names the line.
MISTAKES = {
    "controller": "@plugin.controller(Memcached, name='pods')\n",
    "finalizer": "@plugin.finalizer('example.com/cleanup', of=reconcile)\n",
    "gone": "@plugin.controller(Memcached, name='pods', gone=True)\n",
}
FUNCTION = "def wrong(ctx: ctrlhost.Context[Memcached, None], pod: Pod) -> None: ...\n"


@pytest.mark.slow
@pytest.mark.behaviour("findings3/NA11")
def test_a_mistake_in_a_def_is_told_in_terms_of_a_def(tmp_path: Path) -> None:
    for name, decorator in MISTAKES.items():
        (tmp_path / f"{name}.py").write_text(HEAD.lstrip() + decorator + FUNCTION)
    line = len(HEAD.lstrip().splitlines()) + 1
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", *(f"{name}.py" for name in MISTAKES)]
    environment = {**os.environ, "MYPYPATH": str(ROOT), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    mypy = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
    for output in (mypy, pyright_of(tmp_path)):
        for name in MISTAKES:
            assert re.search(rf"{name}\.py:{line}\b.*Context\[Memcached, None", output), output
        assert "AsyncContext" not in output
        assert set(re.findall(r"\.py:(\d+)", output)) == {str(line)}
