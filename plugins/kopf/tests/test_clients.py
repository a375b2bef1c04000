"""Operators with the client libraries that they use under kopf, which find the configuration as with its login."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import Client, NotFound
from plugins.kopf.tests.operators import Calls, example, install, operator
from tests.support.host_process import HostProcess
from tests.support.waiting import eventually

#: By library: how a handler creates a ConfigMap of the name of its object.
CLIENTS = {
    "kubernetes": """
        from kubernetes import client

        @kopf.on.create("kopfexamples")
        def created(name, namespace, **_):
            body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name))
            client.CoreV1Api().create_namespaced_config_map(namespace, body)
    """,
    "kubernetes_asyncio": """
        @kopf.on.create("kopfexamples")
        async def created(name, namespace, **_):
            from kubernetes_asyncio import client
            async with client.ApiClient() as api:
                body = {"metadata": {"name": name}}
                await client.CoreV1Api(api).create_namespaced_config_map(namespace, body)
    """,
    "kr8s": """
        from kr8s.asyncio.objects import ConfigMap

        @kopf.on.create("kopfexamples")
        async def created(name, namespace, **_):
            config_map = await ConfigMap({"metadata": {"name": name, "namespace": namespace}})
            await config_map.create()
    """,
    "pykube": """
        import pykube

        @kopf.on.create("kopfexamples")
        def created(name, namespace, **_):
            api = pykube.HTTPClient(pykube.KubeConfig.from_env())
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
            pykube.ConfigMap(api, body).create()
    """,
}

#: `make lock` installs all of them.
INSTALLED = [name for name in CLIENTS if find_spec(name) is not None]


@pytest.fixture
def client(sandbox: Any) -> Iterator[Client]:
    client = Client.load(sandbox.kubeconfig)
    install(client)
    yield client
    client.close()


@pytest.mark.behaviour("kopf/KO15")
@pytest.mark.parametrize("mode", ["isolated", "shared"])
def test_each_client_library_works(sandbox: Any, client: Client, tmp_path: Path, mode: str) -> None:
    imported = "import kopf" if mode == "isolated" else "import ctrlhost_kopf as kopf"
    calls = Calls(tmp_path)
    sources = {name: f"{imported}\n{textwrap.dedent(CLIENTS[name])}" for name in INSTALLED}
    files = [operator(tmp_path, f"by_{name}", source, calls) for name, source in sources.items()]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KUBECONFIG")}
    assert {"kubernetes", "kr8s"} <= set(INSTALLED)
    for file in files:
        with HostProcess(f"--kubeconfig={sandbox.kubeconfig}", "--kopf", str(file), environment=environment) as host:
            name = file.stem.replace("_", "-")
            client.create(example(name))
            eventually(lambda name=name: exists(client, name), what=f"{name}: {host.text}", pause=0.02)


LOADS = """
    import kopf
    import kubernetes

    @kopf.on.startup()
    def load(**_):
        kubernetes.config.load_kube_config()
        record("host", kubernetes.client.Configuration.get_default_copy().host)

    @kopf.on.create("configmaps")
    def created(**_): ...
"""


@pytest.mark.behaviour("kopf/KO15")
def test_a_client_that_loads_its_configuration_acts_on_the_sandbox(tmp_path: Path) -> None:
    calls = Calls(tmp_path)
    home = tmp_path / "home" / ".kube" / "config"
    home.parent.mkdir(parents=True)
    home.write_text(OTHER)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KUBECONFIG")}
    environment["HOME"] = str(tmp_path / "home")
    with HostProcess("--sandbox", "--kopf", str(operator(tmp_path, "loads", LOADS, calls)), environment=environment):
        ((_, host),) = calls.wait("host")
    assert host.startswith("https://127.0.0.1:")


#: The cluster of the user, which is not the sandbox.
OTHER = """
apiVersion: v1
kind: Config
current-context: other
clusters: [{name: other, cluster: {server: "https://other.example.com"}}]
users: [{name: other, user: {token: a}}]
contexts: [{name: other, context: {cluster: other, user: other}}]
"""


def exists(client: Client, name: str) -> bool:
    try:
        client.get("v1", "ConfigMap", name, "default")
    except NotFound:
        return False
    return True
