"""Operators and clients of other Python projects: kopf, lightkube, kr8s."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import kr8s
import lightkube
import pytest
from kr8s.objects import ConfigMap as Kr8sConfigMap
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

import ctrlhost
from sandbox.tests.clients.comparison import Comparison, Server
from tests.support.objects import crd
from tests.support.tls_files import Authority
from tests.support.waiting import eventually

OPERATOR = Path(__file__).with_name("kopf_operator.py")
WEBHOOKS = Path(__file__).with_name("kopf_webhooks.py")


def parts_crd(group: str) -> dict[str, Any]:
    body = crd(group, "Part")
    body["spec"]["versions"][0]["subresources"] = {"status": {}}
    return body


@pytest.mark.behaviour("sandbox/EE-08")
def test_a_kopf_operator_with_finalizers_and_timers(compare: Comparison, tmp_path: Path) -> None:
    def steps(server: Server) -> None:
        client, namespace, group = server.client, server.namespace, f"{server.namespace}.kopf.example.org"
        client.create(parts_crd(group))
        api = f"{group}/v1"
        eventually(lambda: _served(server, api), 30, "the CRD is served")
        log = tmp_path / f"{server.kind}.log"
        log.touch()
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "TEST_GROUP": group, "TEST_LOG": str(log)}
        command = [sys.executable, "-m", "kopf", "run", "--standalone", "-n", namespace, str(OPERATOR)]
        with (tmp_path / f"{server.kind}.err").open("wb") as errors:
            process = subprocess.Popen(command, env=environment, stdout=errors, stderr=errors)
        try:
            part = {"apiVersion": api, "kind": "Part", "metadata": {"name": "p", "namespace": namespace}}
            client.create({**part, "spec": {"size": 1}})
            eventually(lambda: (_get(server, api).get("status") or {}).get("created"), 60, "the creation is handled")
            obj = _get(server, api)
            server.note("handled creation", [obj["metadata"]["finalizers"], obj["spec"], obj["status"]])
            client.patch(api, "Part", "p", namespace, {"spec": {"size": 2}})
            eventually(lambda: _get(server, api)["status"].get("seen") == 2, 60, "the update is handled")
            client.patch(api, "Part", "p", namespace, {"metadata": {"labels": {"timed": "yes"}}})
            eventually(lambda: _records(log).count("timer") >= 2, 60, "the timer has run twice")
            client.delete(api, "Part", "p", namespace)
            eventually(lambda: client.find(api, "Part", "p", namespace) is None, 60, "the object is gone")
        finally:
            process.terminate()
            assert process.wait(30) == 0, (tmp_path / f"{server.kind}.err").read_text()[-3000:]
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        server.note("handlers", [line for line in lines if line["handler"] != "timer"])
        events = client.list("v1", "Event", namespace)
        about = {(event["reason"], event["type"]) for event in events if event["involvedObject"]["kind"] == "Part"}
        server.note("events", sorted(about))
        assert [word for word in _records(log) if word != "timer"] == ["create", "update", "delete"]

    compare("kopf", steps)


def test_admission_webhooks_of_a_kopf_operator(compare: Comparison, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    certificate = tmp_path / "operator.pem"
    certificate.write_text("".join(authority.issue("localhost", address="127.0.0.1")))
    Path(f"{certificate}.ca").write_text(authority.pem)

    def steps(server: Server) -> None:
        client, namespace, group = server.client, server.namespace, f"{server.namespace}.hooks.example.org"
        client.create(parts_crd(group))
        api = f"{group}/v1"
        eventually(lambda: _served(server, api), 30, "the CRD is served")
        environment = {
            **os.environ,
            "KUBECONFIG": str(server.kubeconfig),
            "TEST_GROUP": group,
            "TEST_CERTIFICATE": str(certificate),
        }
        command = [sys.executable, "-m", "kopf", "run", "--standalone", "-n", namespace, str(WEBHOOKS)]
        with (tmp_path / f"{server.kind}.err").open("wb") as errors:
            process = subprocess.Popen(command, env=environment, stdout=errors, stderr=errors)
        try:
            part = {"apiVersion": api, "kind": "Part", "metadata": {"name": "p", "namespace": namespace}}

            def tried(**spec: int) -> Any:
                """Return the specification that is stored, or why it is refused; the object is deleted again."""
                try:
                    stored = client.create({**part, "spec": spec})["spec"]
                except ctrlhost.ApiError as error:
                    return str(error)
                client.delete(api, "Part", "p", namespace)
                return stored

            eventually(lambda: "size is above 5" in tried(size=6), 60, "the object is refused")
            eventually(lambda: tried() == {"size": 1}, 60, "the object gets its default")
            server.note("answers", [tried(size=6), tried(), tried(size=4)])
        finally:
            process.terminate()
            assert process.wait(30) == 0, (tmp_path / f"{server.kind}.err").read_text()[-3000:]
            for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
                client.delete("admissionregistration.k8s.io/v1", kind, f"auto.{group}")

    compare("kopf webhooks", steps)


def _served(server: Server, api: str) -> bool:
    try:
        return list(server.client.list(api, "Part", server.namespace)) == []
    except ctrlhost.NotFound:
        return False


def _get(server: Server, api: str) -> dict[str, Any]:
    return server.client.get(api, "Part", "p", server.namespace)


def _records(log: Path) -> list[str]:
    return [json.loads(line)["handler"] for line in log.read_text(encoding="utf-8").splitlines()]


@pytest.mark.behaviour("sandbox/EE-09")
def test_lightkube(compare: Comparison) -> None:
    def steps(server: Server) -> None:
        config = lightkube.KubeConfig.from_file(str(server.kubeconfig))
        with closing(lightkube.Client(config=config.get(), namespace=server.namespace, field_manager="lk")) as client:
            use(server, client)

    def use(server: Server, client: lightkube.Client) -> None:
        metadata = ObjectMeta(name="l", namespace=server.namespace, labels={"a": "b"})
        obj = client.create(ConfigMap(metadata=metadata, data={"k": "v"}))
        server.note("create", obj.to_dict())
        applied = client.apply(ConfigMap(metadata=ObjectMeta(name="l", namespace=server.namespace), data={"l": "m"}))
        server.note("apply", applied.to_dict())
        server.note("patch", client.patch(ConfigMap, "l", {"data": {"l": "n"}}).to_dict())
        listed = client.list(ConfigMap, labels={"a": "b"})
        server.note("list", [item.metadata.name for item in listed])
        seen = []
        for event, item in client.watch(ConfigMap, labels={"a": "b"}, server_timeout=20):
            seen.append([event, item.data])
            if event == "ADDED":
                client.delete(ConfigMap, "l", cascade=lightkube.types.CascadeType.FOREGROUND)
            elif event == "DELETED":
                break
        server.note("watch", seen)
        try:
            client.get(ConfigMap, "l")
        except ApiError as error:
            server.note("get what is gone", error.status.to_dict())

    # One at a time: lightkube's decoder builds its types in each thread, and two at once crash the process.
    compare("lightkube", steps, at_once=False)


@pytest.mark.behaviour("sandbox/EE-09")
@pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning")
def test_kr8s(compare: Comparison) -> None:
    def steps(server: Server) -> None:
        api = kr8s.api(kubeconfig=str(server.kubeconfig), namespace=server.namespace)
        body = {"metadata": {"name": "k", "namespace": server.namespace, "labels": {"a": "b"}}, "data": {"k": "v"}}
        config = Kr8sConfigMap(body, api=api)
        config.create()
        server.note("create", config.raw.to_dict())
        config.patch({"data": {"k": "w"}})
        config.label({"c": "d"})
        server.note("label", config.raw.to_dict())
        config_maps = list(api.get("configmaps", namespace=server.namespace, label_selector={"a": "b"}))
        server.note("list", [item.name for item in config_maps])
        server.note("exists", config.exists())
        seen = []
        for event, item in kr8s.watch(
            "configmaps", server.namespace, label_selector={"a": "b"}, api=api, _asyncio=False
        ):
            seen.append([event, item.raw["data"]])
            if event == "ADDED":
                # kr8s has no apply of its own.
                config.patch({"data": {"k": "x"}})
            elif event == "MODIFIED":
                config.delete()
            else:
                break
        assert [event for event, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]
        server.note("watch", seen)
        config.wait("delete", timeout=20)
        server.note("exists after deletion", config.exists())
        try:
            Kr8sConfigMap.get("k", namespace=server.namespace, api=api)
        except (kr8s.NotFoundError, httpx.HTTPStatusError) as error:
            server.note("get what is gone", type(error).__name__)
        server.note("version", api.version()["major"])

    compare("kr8s", steps)
