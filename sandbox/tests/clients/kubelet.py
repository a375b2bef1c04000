"""A toy scheduler and kubelet for the real control plane; pods are bound, start and end at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.controllers import containers
from kubernetes.client import ApiException, CoreV1Api
from kubernetes.config import new_client_from_config

import ctrlhost

NODE = "sandbox-node"


@contextmanager
def running(kubeconfig: Path) -> Iterator[None]:
    """Run the scheduler and kubelet during the block."""
    client = ctrlhost.Client.load(kubeconfig=str(kubeconfig))
    core = CoreV1Api(new_client_from_config(str(kubeconfig)))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}}
    client.create(node)
    client.patch("v1", "Node", NODE, None, {"spec": {"taints": None}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "toy"}
    client.patch("v1", "Node", NODE, None, {"status": {"conditions": [ready]}}, subresource="status")
    factory = ctrlhost.InformerFactory(client)
    stop, work = threading.Event(), threading.Condition()
    waiting: dict[tuple[str, str], None] = {}

    def look(pod: Any, _initial: bool = False) -> None:
        with work:
            waiting[pod.namespace, pod.name] = None
            work.notify()

    pods = factory.informer("v1", "Pod")
    pods.add_handler(on_add=look, on_update=lambda _old, new: look(new))

    def run() -> None:
        while True:
            with work:
                work.wait_for(lambda: waiting or stop.is_set())
                if stop.is_set():
                    return
                namespace, name = next(iter(waiting))
                del waiting[namespace, name]
            try:
                _step(client, core, namespace, name)
            except (ctrlhost.ApiError, ApiException):
                continue  # Another writer was faster; its change arrives as an event.

    thread = threading.Thread(target=run, name="kubelet", daemon=True)
    with factory:
        factory.wait_for_sync(30)
        thread.start()
        yield
        stop.set()
        with work:
            work.notify()
        thread.join()


def _step(client: ctrlhost.Client, core: CoreV1Api, namespace: str, name: str) -> None:
    pod = client.find("v1", "Pod", name, namespace)
    if pod is None or pod["spec"]["schedulerName"] != "default-scheduler":
        return
    if pod["metadata"].get("deletionTimestamp"):
        if pod["metadata"].get("finalizers") and pod["status"]["phase"] in ("Pending", "Running"):
            containers.end(pod, containers.TERMINATED)
            client.replace(pod, subresource="status")
        core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)
    elif not pod["spec"].get("nodeName"):
        binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}}
        core.create_namespaced_pod_binding(name, namespace, binding, _preload_content=False)
    elif pod["status"]["phase"] == "Pending":
        now = times.now()
        pod["status"].update(
            phase="Running",
            hostIP="127.0.0.1",
            hostIPs=[{"ip": "127.0.0.1"}],
            podIP="127.64.0.1",
            podIPs=[{"ip": "127.64.0.1"}],
            startTime=now,
            containerStatuses=[_container(item, now) for item in pod["spec"]["containers"]],
        )
        for kind in ("Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready"):
            condition = {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            pod["status"].setdefault("conditions", []).append(condition)
        client.replace(pod, subresource="status")
    elif pod["status"]["phase"] == "Running" and containers.ends(pod) and not _runs_long(pod):
        containers.end(pod, int(containers.number(pod, containers.EXIT_CODE_ANNOTATION, 0)))
        client.replace(pod, subresource="status")


def _runs_long(pod: dict[str, Any]) -> bool:
    return containers.annotation(pod, containers.RUN_ANNOTATION, "") != ""


def _container(item: dict[str, Any], now: str) -> dict[str, Any]:
    return {
        "name": item["name"],
        "image": item["image"],
        "imageID": f"sandbox://{item['image']}",
        "containerID": "sandbox://00000000-0000-0000-0000-000000000000",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": now}},
    }
