"""Kills at random moments: acknowledged writes are stored completely, and versions keep increasing.

CTRLHOST_KILLS is the number of kills (`make soak`: 1,000); CTRLHOST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.support.http_client import Api
from tests.support.objects import config_map, core

KILLS = int(os.environ.get("CTRLHOST_KILLS", "20"))
WRITERS = 4
SERVER = """
import sys
from ctrlhost_sandbox import Sandbox
sandbox = Sandbox(data_dir=sys.argv[1], insecure_http=True, controllers=()).start()
print(sandbox.url, flush=True)
sys.stdin.read()
"""
PATH = core("default", "configmaps")


class Ledger:
    """The acknowledged writes by name: the data and the version, or None for a deletion.

    A write in flight when the server was killed may be stored or not; `open` maps its name to that outcome.
    """

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, int] | None] = {}
        self.open: dict[str, str | None] = {}
        self.newest = 0

    def check(self, listing: dict[str, Any]) -> None:
        stored = {item["metadata"]["name"]: item for item in listing["items"]}
        for name in sorted(self.known.keys() | stored.keys() | self.open.keys()):
            item = stored.get(name)
            value = None if item is None else item["data"]["k"]
            known = self.known.get(name)
            allowed = {known[0] if known else None}
            if name in self.open:
                allowed.add(self.open[name])
            assert value in allowed, (name, value, allowed)
            if known and item and value == known[0] and name not in self.open:
                assert int(item["metadata"]["resourceVersion"]) == known[1]
            self.known[name] = (value, int(item["metadata"]["resourceVersion"])) if item and value is not None else None
        self.open.clear()
        version = int(listing["metadata"]["resourceVersion"])
        assert version > self.newest, "a version may be used twice"
        self.newest = version


def write(api: Api, ledger: Ledger, writer: int, seed: int) -> None:
    """Create, replace and delete this writer's own objects until the server is gone."""
    chance = random.Random(seed)
    while True:
        name = f"w{writer}-{chance.randrange(20)}"
        there = ledger.known.get(name) is not None
        value = (
            None if there and chance.random() < 0.3 else f"{chance.random()}" + "x" * chance.choice((0, 100, 20_000))
        )
        ledger.open[name] = value
        try:
            if value is None:
                answer = api.delete(f"{PATH}/{name}")
            elif there:
                answer = api.put(f"{PATH}/{name}", config_map(name, {"k": value}))
            else:
                answer = api.post(PATH, config_map(name, {"k": value}))
        except Exception:  # noqa: BLE001 - the server was killed, before or after it had written
            return
        assert answer.status in (200, 201), answer.body
        version = 0 if value is None else int(answer.json()["metadata"]["resourceVersion"])
        ledger.known[name] = None if value is None else (value, version)
        del ledger.open[name]
        ledger.newest = max(ledger.newest, version)


def test_kills_lose_no_acknowledged_write(tmp_path: Path) -> None:
    seed = int(os.environ.get("CTRLHOST_SEED", random.randrange(2**32)))
    print(f"CTRLHOST_SEED={seed}")
    chance = random.Random(seed)
    ledger = Ledger()
    writes = 0
    for kill in range(KILLS + 1):
        command = [sys.executable, "-c", SERVER, str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with Api(url) as api:
                ledger.check(api.get(PATH).expect(200))
            if kill == KILLS:
                process.kill()
                break
            before = ledger.newest
            clients = [Api(url) for _ in range(WRITERS)]
            threads = [
                threading.Thread(target=write, args=(client, ledger, number, chance.randrange(2**32)))
                for number, client in enumerate(clients)
            ]
            for thread in threads:
                thread.start()
            # The moment is random on purpose.
            time.sleep(chance.uniform(0.0, 0.15))
            process.kill()
            for thread in threads:
                thread.join()
            for client in clients:
                client.pool.clear()
            writes += ledger.newest - before
    assert writes > KILLS, "the kills came before anything was written"
