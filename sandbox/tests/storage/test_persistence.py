"""Persistence across restarts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ctrlhost_sandbox import Sandbox
from ctrlhost_sandbox.errors import SandboxError

from sandbox.tests.conftest import Crd, crd_body
from tests.support.http_client import Api, names
from tests.support.objects import config_map, core, service

WRITER = """
import sys
from ctrlhost_sandbox import Sandbox
sandbox = Sandbox(data_dir=sys.argv[1]).start()
print(sandbox.url, sandbox.token, flush=True)
print(repr(sandbox.ca), flush=True)
sys.stdin.read()
"""


def api_of(sandbox: Sandbox) -> Api:
    return Api(sandbox.url, sandbox.ca, sandbox.token)


@pytest.mark.behaviour("sandbox/PE-01")
def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    with Sandbox(data_dir=tmp_path, controllers=()) as sandbox, api_of(sandbox) as api:
        crd = Crd(api, crd_body("p.t.example.org")).establish()
        for number in range(101):
            api.post(core("default", "configmaps"), config_map(f"c{number:03}")).expect(201)
        api.delete(core("default", "configmaps", "c100")).expect(200)
        api.post(core("default", "services"), service()).expect(201)
        api.post(crd.path("default"), crd.obj(size=1)).expect(201)
        before = api.get(core("default", "configmaps")).expect(200)
        custom = api.get(crd.path("default", "a")).expect(200)
        system = api.get("/api/v1/namespaces/kube-system").expect(200)["metadata"]["uid"]
    with Sandbox(data_dir=tmp_path, controllers=()) as sandbox, api_of(sandbox) as api:
        assert api.get("/readyz").expect(200) == b"ok"
        assert names(api.get(crd.path("default"))) == ["a"]
        after = api.get(core("default", "configmaps")).expect(200)
        assert len(after["items"]) == 100
        assert after["items"] == before["items"]
        assert int(after["metadata"]["resourceVersion"]) >= int(before["metadata"]["resourceVersion"])
        assert api.get(crd.path("default", "a")).expect(200) == custom
        assert api.get("/api/v1/namespaces/kube-system").json()["metadata"]["uid"] == system
        taken = api.get(core("default", "services", "s")).json()["spec"]["clusterIP"]
        api.post(core("default", "services"), service("t", clusterIP=taken)).fails(422, "Invalid")
        port = int(sandbox.url.rpartition(":")[2])
        slice_ = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
        assert api.get(slice_).json()["ports"][0]["port"] == port


@pytest.mark.behaviour("sandbox/PE-02")
def test_a_killed_server_keeps_acknowledged_writes(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        url, token = process.stdout.readline().split()
        ca = process.stdout.readline().strip()[1:-1].replace("\\n", "\n")
        acknowledged: list[str] = []
        newest = [0]
        enough = threading.Event()

        def write() -> None:
            with Api(url, ca, token) as api:
                for number in range(100_000):
                    try:
                        answer = api.post(core("default", "configmaps"), config_map(f"c{number}"))
                    except Exception:  # noqa: BLE001 - the server is gone
                        return
                    acknowledged.append(f"c{number}")
                    newest[0] = int(answer.json()["metadata"]["resourceVersion"])
                    if number == 100:
                        enough.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert enough.wait(60)
        process.send_signal(signal.SIGKILL)
        writer.join()
    with Sandbox(data_dir=tmp_path) as sandbox, api_of(sandbox) as api:
        answer = api.get(core("default", "configmaps"))
        assert set(acknowledged) <= set(names(answer))
        assert int(answer.json()["metadata"]["resourceVersion"]) > newest[0]
        watch = api.watch(core("default", "configmaps"), resourceVersion=newest[0])
        (event,) = watch.rest()
        assert (watch.status, event["type"]) == (200, "ERROR")
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


@pytest.mark.behaviour("sandbox/PE-03")
def test_a_data_directory_has_one_owner(tmp_path: Path) -> None:
    with Sandbox(data_dir=tmp_path) as sandbox, api_of(sandbox) as api:
        with pytest.raises(SandboxError, match="in use"):
            Sandbox(data_dir=tmp_path).start()
        command = [sys.executable, "-m", "ctrlhost_sandbox", "--data", str(tmp_path)]
        other = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert other.returncode != 0
        assert f"{tmp_path} is in use by another sandbox" in other.stderr
        # The owner is not disturbed.
        api.post(core("default", "configmaps"), config_map()).expect(201)
    with Sandbox(data_dir=tmp_path) as sandbox, api_of(sandbox) as api:
        api.get(core("default", "configmaps", "a")).expect(200)


@pytest.mark.behaviour("sandbox/PE-04")
@pytest.mark.parametrize("size", [0, 50, 8192])
def test_damaged_data_is_refused(tmp_path: Path, size: int) -> None:
    with Sandbox(data_dir=tmp_path) as sandbox, api_of(sandbox) as api:
        for number in range(20):
            api.post(core("default", "configmaps"), config_map(f"c{number}", {"k": "x" * 5000})).expect(201)
    file = tmp_path / "objects.sqlite"
    data = file.read_bytes()
    assert len(data) > 8192
    file.write_bytes(data[:size])
    # A second try finds the same.
    for _ in range(2):
        with pytest.raises(SandboxError, match=f"{re.escape(str(file))} cannot be read"):
            Sandbox(data_dir=tmp_path).start()
        assert file.read_bytes() == data[:size]
