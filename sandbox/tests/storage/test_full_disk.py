"""A full disk: writes get 507, and everything continues once there is room."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ctrlhost_sandbox import Sandbox
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.storage.persistence import Disk
from ctrlhost_sandbox.storage.store import Snapshot

from sandbox.tests.conftest import Crd, crd_body
from sandbox.tests.storage.full_disk import MAPS, check_full, until_full
from tests.support.http_client import Api, names
from tests.support.objects import config_map
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
#: Mounts a file system of 4 MiB that only this process sees; needs no privileges.
MOUNTED = 'mount -t tmpfs -o size=4m none "$1" && exec "$2" -m sandbox.tests.storage.full_disk "$1"'


@pytest.mark.behaviour("findings/FS26")
def test_a_full_disk(tmp_path: Path) -> None:
    unshare = [shutil.which("unshare") or "", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if not unshare[0] or subprocess.run([*unshare, f"mount -t tmpfs none {tmp_path}"], check=False).returncode:
        pytest.skip("this machine lets no process mount a file system for itself")
    command = [*unshare, MOUNTED, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    for text in ("writes get 507", "has room again", "audit.log: cannot write", "events were lost"):
        assert text in done.stderr


@pytest.mark.behaviour("findings/FS26")
def test_a_database_that_cannot_grow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with Sandbox(data_dir=tmp_path) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:

        def limit(pages: str) -> None:
            sandbox._ask(lambda context: journal(context.journal)._database.execute(f"PRAGMA max_page_count = {pages}"))

        api.post(MAPS, config_map("first", {"k": "x" * 20_000})).expect(201)
        limit("1")
        written = until_full(api, tmp_path)
        check_full(api.put(f"{MAPS}/first", config_map("first", {"k": "y" * 50_000})), tmp_path)
        assert api.get(f"{MAPS}/first").json()["data"] == {"k": "x" * 20_000}
        # A deletion makes room.
        api.delete(f"{MAPS}/first").expect(200)
        api.post(MAPS, config_map("second", {"k": "x" * 10_000})).expect(201)
        limit("1073741823")
        api.post(MAPS, config_map("third", {"k": "x" * 50_000})).expect(201)
        assert {"second", "third", *written} <= set(names(api.get(MAPS)))
    messages = [record.message for record in caplog.records if "disk" in record.message]
    assert ["507" in text or "room again" in text for text in messages] == [True] * len(messages)
    assert len(messages) >= 2
    with Sandbox(data_dir=tmp_path) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        assert {"second", "third", *written} <= set(names(api.get(MAPS)))


def journal(disk: object) -> Disk:
    assert isinstance(disk, Disk)
    return disk


@pytest.mark.behaviour("findings/FS26")
def test_a_crd_is_established_once_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, refused = Disk.write, []

    def full(self: Disk, table: str, snapshot: Snapshot, revision: int, *, removed: bool) -> None:
        if b"NamesAccepted" in snapshot.raw and len(refused) < 3:
            refused.append(revision)
            raise Failure(507, "InsufficientStorage", "full")
        write(self, table, snapshot, revision, removed=removed)

    monkeypatch.setattr(Disk, "write", full)
    with Sandbox(data_dir=tmp_path) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        crd = Crd(api, crd_body("full.t.example.org")).establish()
        assert len(refused) == 3
        eventually(lambda: api.get(crd.path("default")).status == 200)
