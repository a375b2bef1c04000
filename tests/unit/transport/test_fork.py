"""Children of a process that has open watches."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.support.stub_api_server import Frames, Json, StubApiServer, pod, pod_list, serve


@pytest.mark.behaviour("scale/SC22")
def test_a_child_fails_at_once_and_the_parent_continues_and_ends() -> None:
    code = textwrap.dedent("""
        import os, sys
        import ctrlhost
        from ctrlhost.informers import ReflectorOptions
        from tests.support.waiting import eventually

        client = ctrlhost.Client(sys.argv[1])
        factory = ctrlhost.InformerFactory(client, options=ReflectorOptions(watch_list=False))
        pods = factory.informer("v1", "Pod")
        factory.start()
        assert factory.wait_for_sync(20)
        eventually(lambda: client.transport.connections()["stream"] == 1)
        client.get("v1", "Pod", "a", "default")
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (lambda: client.get("v1", "Pod", "a", "default"), lambda: pods.lister.list()):
                try:
                    use()
                except RuntimeError as error:
                    assert "fork" in str(error), error
                    refused += 1
            # A client of its own works.
            ctrlhost.Client(sys.argv[1]).get("v1", "Pod", "a", "default")
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        assert client.get("v1", "Pod", "a", "default")["metadata"]["name"] == "a"
        assert [pod.name for pod in pods.lister.list()] == ["a"]
        # Ends with the watch open.
        print("ends", flush=True)
    """)
    with StubApiServer() as server:
        serve(server, "/api/v1/pods", [Json(pod_list(1, pod("a", 1)))], [Frames()])
        server.on("GET", "/api/v1/namespaces/default/pods/a", Json(pod("a", 1)))
        command = [sys.executable, "-W", "ignore", "-c", code, server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "ends\n", process.stderr.read()
            # Several times the second that the end may take.
            _, errors = process.communicate(timeout=5)
    assert (process.returncode, errors) == (0, "")
