"""Ten operators written for kopf in one host, beside ten kopf processes: memory, and the processor time of events."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benches.sandboxes import sandbox
from benches.supervised import processor_time
from ctrlhost import Client
from tests.support.host_process import HostProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from benches.ratios import Ratios

COPIES, OBJECTS = 10, 2_000
#: Events in a second, and in all.
PACE, EVENTS = 100, 1_000
KINDS = ("ConfigMap", "Secret")

#: An operator of two kinds that remembers what it has seen, and the last change.
OPERATOR = """
{imported}
import pathlib

seen = set()
progress = pathlib.Path(__file__).with_suffix(".txt")

@kopf.on.event("v1", "configmaps")
@kopf.on.event("v1", "secrets")
async def changed(body, namespace, uid, memo, annotations, **_):
    if namespace != "default":
        return
    memo.version = body.metadata["resourceVersion"]
    known = len(seen)
    seen.add(uid)
    if len(seen) > known == {objects} - 1:
        progress.write_text("all")
    if annotations.get("change") == "{last}":
        progress.write_text("{last}")
"""


def objects() -> Iterator[dict[str, object]]:
    """Yield as many objects of each kind."""
    for number in range(OBJECTS // len(KINDS)):
        for kind in KINDS:
            metadata = {"name": f"object-{number}", "namespace": "default", "labels": {"number": str(number)}}
            yield {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"text": "eHh4" * 250}}


def write(folder: Path, imported: str) -> list[Path]:
    """Write the copies of the operator."""
    folder.mkdir()
    files = [folder / f"operator_{number}.py" for number in range(COPIES)]
    for file in files:
        file.write_text(OPERATOR.format(imported=imported, objects=OBJECTS, last=EVENTS - 1))
    return files


def wait_for(files: list[Path], text: str) -> None:
    """Wait until all copies have seen all objects, and this change last."""

    def reached() -> bool:
        texts = [file.with_suffix(".txt") for file in files]
        return all(path.exists() and path.read_text() == text for path in texts)

    eventually(reached, timeout=300, pause=0.1)


def proportional(pid: int) -> int:
    """Return the bytes of a process, with its part of those that it shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def measured(client: Client, files: list[Path], pids: list[int]) -> tuple[int, float]:
    """Return the memory of processes that have seen all objects, and their processor seconds in each event."""
    wait_for(files, "all")
    time.sleep(3)
    memory, before = sum(map(proportional, pids)), sum(map(processor_time, pids))
    began = time.monotonic()
    for number in range(EVENTS):
        kind = KINDS[number % len(KINDS)]
        change = {"metadata": {"annotations": {"change": str(number)}}}
        client.patch("v1", kind, f"object-{number % (OBJECTS // 4)}", "default", change)
        time.sleep(max(0.0, began + (number + 1) / PACE - time.monotonic()))
    wait_for(files, str(EVENTS - 1))
    return memory, (sum(map(processor_time, pids)) - before) / EVENTS


@contextmanager
def kopf_processes(files: list[Path], kubeconfig: Path) -> Iterator[list[int]]:
    """Run kopf for each file."""
    environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
    with ExitStack() as stack:
        processes = []
        for file in files:
            command = [sys.executable, "-m", "kopf", "run", "--all-namespaces", "--standalone", str(file)]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        yield [process.pid for process in processes]


@pytest.mark.behaviour("kopf/KO18")
def test_ten_operators(ratios: Ratios, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with sandbox(tmp_path / "server") as server:
        client = Client.load(server.kubeconfig)
        for obj in objects():
            client.create(obj)
        theirs = write(tmp_path / "kopf", "import kopf")
        with kopf_processes(theirs, server.kubeconfig) as pids:
            kopf_memory, kopf_seconds = measured(client, theirs, pids)
        ours = write(tmp_path / "ours", "import ctrlhost_kopf as kopf")
        for kind in KINDS:
            # The changes of the run before are not those that are waited for.
            for obj in client.list("v1", kind, namespace="default"):
                if "change" in obj["metadata"].get("annotations", {}):
                    change = {"metadata": {"annotations": {"change": None}}}
                    client.patch("v1", kind, obj["metadata"]["name"], "default", change)
        with HostProcess(f"--kubeconfig={server.kubeconfig}", "--kopf", *map(str, ours), forked=False) as host:
            memory, seconds = measured(client, ours, [host.pid])
            shown = host.get("/metrics")[1].splitlines()
            informers = [line for line in shown if line.startswith("ctrlhost_informer_objects{")]
        client.close()
    ratios.add("kopf", "memory of ten operators and 2,000 objects", "B", memory, kopf=kopf_memory)
    ratios.add("kopf", "processor time of an event in ten operators", "s", seconds, kopf=kopf_seconds)
    for kind in KINDS:
        assert len([line for line in informers if f'resource="{kind.lower()}s"' in line]) == 1
