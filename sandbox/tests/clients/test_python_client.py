"""The official Python client with validation: the same answers from the sandbox and a real kube-apiserver."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from ctrlhost_sandbox.registry.builtin import builtin_kinds
from ctrlhost_sandbox.registry.registry import Kind
from kubernetes.client import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from sandbox.tests.clients.bodies import body_of
from sandbox.tests.clients.comparison import Comparison, Server
from tests.support.objects import config_map
from tests.support.waiting import eventually

APIS = {
    "": "CoreV1Api",
    "apps": "AppsV1Api",
    "networking.k8s.io": "NetworkingV1Api",
    "coordination.k8s.io": "CoordinationV1Api",
    "discovery.k8s.io": "DiscoveryV1Api",
    "events.k8s.io": "EventsV1Api",
    "rbac.authorization.k8s.io": "RbacAuthorizationV1Api",
    "apiextensions.k8s.io": "ApiextensionsV1Api",
    "admissionregistration.k8s.io": "AdmissionregistrationV1Api",
    "apiregistration.k8s.io": "ApiregistrationV1Api",
    "batch": "BatchV1Api",
    "certificates.k8s.io": "CertificatesV1Api",
    "flowcontrol.apiserver.k8s.io": "FlowcontrolApiserverV1Api",
    "node.k8s.io": "NodeV1Api",
    "policy": "PolicyV1Api",
    "resource.k8s.io": "ResourceV1Api",
    "scheduling.k8s.io": "SchedulingV1Api",
    "storage.k8s.io": "StorageV1Api",
}
KINDS = [kind for kind in builtin_kinds() if "create" in kind.verbs and not kind.virtual]
_serial = itertools.count(1)
#: Fields that controllers write during the test, at any time.
THEIRS = {"status", "managedFields", "generation", "resourceVersion"}


@contextmanager
def connected(server: Server) -> Iterator[kubernetes.client.ApiClient]:
    """Return a client from the server's kubeconfig, with verified TLS."""
    with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as client:
        assert client.configuration.verify_ssl
        yield client


def refusal(error: ApiException) -> list[Any]:
    """Return the server's error."""
    return [error.status, json.loads(error.body)]


def settled(value: Any) -> Any:
    """Remove the fields that controllers write."""
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items() if key not in THEIRS}
    return [settled(item) for item in value] if isinstance(value, list) else value


class Calls:
    """The methods of the typed client for one kind; each call or its error is a step."""

    def __init__(self, server: Server, client: kubernetes.client.ApiClient, kind: Kind) -> None:
        self.server, self.client, self.kind = server, client, kind
        api = APIS.get(kind.group) or f"Autoscaling{kind.version.upper()}Api"
        self.api = getattr(kubernetes.client, api)(client)
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", f"_{kind.kind}").lower()
        self.name = f"{'_namespaced' if kind.namespaced else ''}{snake}"
        self.namespace = (server.namespace,) if kind.namespaced else ()

    def __call__(self, verb: str, name: str = "", body: Any = None, *, part: str = "", **options: Any) -> Any:
        method = getattr(self.api, f"{verb}{self.name}{part}")
        step = f"{verb} {self.kind.kind}{part}"
        arguments = [*([name] if name else []), *self.namespace, *([] if body is None else [body])]
        try:
            answer = method(*arguments, **options)
        except ApiException as error:
            self.server.note(step, refusal(error))
            return None
        plain = self.client.sanitize_for_serialization(answer)
        self.server.note(step, settled(plain))
        return plain


@pytest.mark.behaviour("sandbox/EE-07")
@pytest.mark.behaviour("findings/FS1b")
@pytest.mark.parametrize("kind", KINDS, ids=[f"{kind.kind}.{kind.api_version}" for kind in KINDS])
def test_typed_create_read_change_and_delete_of_every_kind(compare: Comparison, kind: Kind) -> None:
    serial = next(_serial)

    def steps(server: Server) -> None:
        with connected(server) as client:
            k = Calls(server, client, kind)
            body = body_of(kind.group, kind.kind, f"typed-{serial}", server.namespace, serial)
            name = body["metadata"]["name"]
            answer = k("create", body=body)
            k("create", body=body)
            k("read", name)
            k("patch", name, {"metadata": {"labels": {"patched": "yes"}}})
            k("patch", name, [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}])
            body["metadata"]["labels"] = {"replaced": "yes"}
            if kind.needs_version:
                k("replace", name, body)
                obj = getattr(k.api, f"read{k.name}")(name, *k.namespace)
                body["metadata"]["resourceVersion"] = obj.metadata.resource_version
            if kind.kind == "Pod":
                body = {**answer, "metadata": body["metadata"]}
            k("replace", name, body)
            if kind.has_status:
                k("read", name, part="_status")
            if kind.scale is not None:
                k("read", name, part="_scale")
                k("patch", name, {"spec": {"replicas": 0}}, part="_scale")
            k("list", field_selector=f"metadata.name={name}")
            k("delete", name)
            if "deletecollection" in kind.verbs:
                k("delete_collection", field_selector=f"metadata.name={name}")

    compare("python typed", steps)


@pytest.mark.behaviour("sandbox/EE-07")
def test_the_dynamic_client(compare: Comparison) -> None:
    def steps(server: Server) -> None:
        with connected(server) as client:
            dynamic = DynamicClient(client)
            configs = dynamic.resources.get(api_version="v1", kind="ConfigMap")
            obj = configs.create(body=config_map("d"), namespace=server.namespace, field_manager="py")
            server.note("create", obj.to_dict())
            applied = {**config_map("d", {"k": "w"})}
            for force in (False, True):
                try:
                    answer = configs.server_side_apply(
                        body=applied, namespace=server.namespace, field_manager="apply", force_conflicts=force
                    )
                    server.note(f"apply, force {force}", answer.to_dict())
                except ApiException as error:
                    server.note(f"apply, force {force}", refusal(error))
            server.note(
                "patch", configs.patch(body={"data": {"l": "m"}}, name="d", namespace=server.namespace).to_dict()
            )
            objects = configs.get(namespace=server.namespace, label_selector="!none", field_selector="metadata.name=d")
            server.note("list", objects.to_dict())
            seen = []
            for event in configs.watch(namespace=server.namespace, name="d", timeout=20):
                seen.append((event["type"], event["object"].data.to_dict()))
                if event["type"] == "ADDED":
                    configs.patch(body={"data": {"l": "n"}}, name="d", namespace=server.namespace)
                elif event["type"] == "MODIFIED":
                    deleted = configs.delete(name="d", namespace=server.namespace)
                    server.note("delete", deleted.to_dict())
                else:
                    break
            server.note("watch", seen)
            server.note("kinds", sorted({item.kind for item in dynamic.resources.search(group="apps") if item.kind}))

    compare("python dynamic", steps)


@pytest.mark.behaviour("sandbox/EE-07")
def test_watching(compare: Comparison) -> None:
    def steps(server: Server) -> None:
        with connected(server) as client:
            core = kubernetes.client.CoreV1Api(client)
            core.create_namespaced_config_map(server.namespace, config_map("w", labels={"l": "1"}))
            watch, seen = kubernetes.watch.Watch(), []
            options = {"label_selector": "l", "timeout_seconds": 20}
            for event in watch.stream(core.list_namespaced_config_map, server.namespace, **options):
                seen.append([event["type"], event["object"].metadata.labels, event["object"].kind])
                if event["type"] == "ADDED":
                    core.patch_namespaced_config_map("w", server.namespace, {"metadata": {"labels": {"l": "2"}}})
                elif event["type"] == "MODIFIED":
                    core.patch_namespaced_config_map("w", server.namespace, {"metadata": {"labels": {"l": None}}})
                else:
                    watch.stop()
            server.note("watch", seen)
            try:
                for _ in watch.stream(core.list_namespaced_config_map, server.namespace, resource_version="x"):
                    break
            except ApiException as error:
                server.note("watch from no version", refusal(error))

    compare("python watch", steps)


@pytest.mark.behaviour("sandbox/EE-07")
def test_electing_a_leader(compare: Comparison, tmp_path: Path) -> None:
    def steps(server: Server) -> None:
        calls: list[str] = []
        with connected(server) as client:
            lock = LeaseLock("election", server.namespace, "me")
            lock.api_instance = kubernetes.client.CoordinationV1Api(client)
            led = threading.Event()

            def started() -> None:
                calls.append("started leading")
                led.set()

            settings = electionconfig.Config(lock, 4, 3, 1, started, lambda: calls.append("stopped leading"))
            threading.Thread(target=leaderelection.LeaderElection(settings).run, daemon=True).start()
            assert led.wait(20)
            lease = ("coordination.k8s.io/v1", "Lease", "election", server.namespace)
            server.note("the Lease", server.client.get(*lease)["spec"])
            # Another holder takes the Lease: the elector must notice the loss.
            body = {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 60}}
            server.client.patch(*lease, body)
            eventually(lambda: "stopped leading" in calls, 20)
            server.note("calls", calls)

    compare("python election", steps)
