"""A sandbox on a disk that becomes full: `python -m sandbox.tests.storage.full_disk DIRECTORY` fills that disk.

The test of it mounts a small file system for this process alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ctrlhost_sandbox import Sandbox
from ctrlhost_sandbox.errors import SandboxError

from sandbox.tests.conftest import Crd, crd_body
from tests.support.http_client import Answer, Api
from tests.support.objects import config_map, core

MAPS = core("default", "configmaps")


def fill(filler: Path) -> None:
    """Take all room of the disk, byte by byte at the end."""
    with filler.open("ab", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue


def check_full(answer: Answer, data: Path) -> None:
    """Check that the answer names the full disk."""
    failure = answer.fails(507, "InsufficientStorage")
    assert str(data) in failure["message"]
    assert "full" in failure["message"]
    assert "free some space" in failure["message"]


def until_full(api: Api, data: Path) -> list[str]:
    """Create objects until one does not fit; return the names of the others."""
    written = []
    for number in range(1000):
        answer = api.post(MAPS, config_map(f"c{number:03}", {"k": "x" * 20_000}))
        if answer.status != 201:
            check_full(answer, data)
            return written
        written.append(f"c{number:03}")
    raise AssertionError("the disk did not become full")


def run(directory: Path) -> None:
    data, log, filler = directory / "data", directory / "audit.log", directory / "filler"
    with Sandbox(data_dir=data, audit_log=log) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        crd = Crd(api, crd_body("full.t.example.org")).establish()
        fill(filler)
        written = until_full(api, data)
        version = api.revision(MAPS)
        check_full(api.post(MAPS, config_map("more", {"k": "x" * 20_000})), data)
        check_full(api.post(crd.path("default"), crd.obj(size=1)), data)
        # Nothing has changed, and reads work.
        assert api.revision(MAPS) == version
        api.get(f"{MAPS}/more").fails(404)
        check_full(api.post(MAPS, config_map("more", {"k": "y" * 20_000})), data)
        # More events than the last page of the log can hold.
        for _ in range(20):
            api.get(f"{MAPS}/more").fails(404)
        lines = log.read_text().splitlines()
        before = [json.loads(line) for line in lines]
        assert before
        filler.unlink()
        # As soon as there is room.
        for name in written:
            api.delete(f"{MAPS}/{name}").expect(200)
        api.post(MAPS, config_map("kept")).expect(201)
        api.post(crd.path("default"), crd.obj(size=2)).expect(201)
        after = [json.loads(line) for line in log.read_text().splitlines()]
        assert after[: len(before)] == before
        assert [event["objectRef"]["name"] for event in after[-2:]] == ["kept", "a"]
        fill(filler)
    # It has stopped without an error. A restart says what to do.
    with pytest.raises(SandboxError) as refused:
        Sandbox(data_dir=data).start()
    assert "the disk is full" in str(refused.value), refused.value
    assert "free some space" in (refused.value.hint or "")
    with pytest.raises(SandboxError) as refused:
        Sandbox(data_dir=directory / "other").start()
    assert "full" in str(refused.value) or "No space" in str(refused.value)
    filler.unlink()
    with Sandbox(data_dir=data) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        api.get(f"{MAPS}/kept").expect(200)
        assert api.get(crd.path("default", "a")).expect(200)["spec"] == {"size": 2}
    with Sandbox(data_dir=directory / "other"):
        pass


if __name__ == "__main__":
    run(Path(sys.argv[1]))
