"""Strings that many objects share."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from ctrlhost.cache import Object


def names(*keys: str) -> list[str]:
    """Return the member names of an object as its view returns them."""
    return list(Object({"metadata": {"name": "a"}, "spec": dict.fromkeys(keys, 1)})["spec"])


@pytest.mark.behaviour("findings/FQ16")
def test_keys_are_shared_but_not_for_ever() -> None:
    (first,), (again,) = names("a key of this test"), names("a key of this test")
    assert first is again
    copy = f"{first[:4]}y of this test"
    assert sys.intern(copy) is copy
    (long,) = names("x" * 1000)
    assert long == "x" * 1000


@pytest.mark.behaviour("findings/FQ16")
def test_a_million_different_keys_leave_no_memory_behind() -> None:
    code = textwrap.dedent("""
        import json, pathlib
        from ctrlhost._core import Object

        def resident():
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

        def read(count):
            for first in range(0, count, 1000):
                keys = ",".join(f'"key-{read.last + number}":{{}}' for number in range(1000))
                obj = Object('{"kind":"K%d","metadata":{"name":"a"},"spec":{%s}}' % (read.last, keys))
                assert len(obj["spec"].keys()) == len(obj.to_dict()["spec"]) == 1000
                assert obj.kind
                read.last += 1000

        read.last = 0
        read(50_000)
        before = resident()
        read(1_000_000)
        grown = resident() - before
        assert grown < 5_000_000, grown
    """)
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, timeout=100, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
