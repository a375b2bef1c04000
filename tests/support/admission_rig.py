"""Policies, and requests that they concern, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from tests.support.http_client import Answer, Api
from tests.support.waiting import eventually, eventually_equal

GROUP = "/apis/admissionregistration.k8s.io/v1"
_serial = itertools.count(1)
#: Of an answer: the code, the message, the reason, the causes, and the warnings.
Shown = tuple[int, str, str, list[dict[str, str]], list[str]]


def verdict_of(answer: Answer) -> Shown:
    status = answer.json() if answer.status >= 400 else {}
    causes = (status.get("details") or {}).get("causes") or []
    return answer.status, status.get("message", ""), status.get("reason", ""), causes, answer.warnings


def without_server_fields(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what differs between two servers."""
    kept = ("name", "namespace", "labels", "annotations", "finalizers", "generation")
    metadata = {key: value for key, value in obj["metadata"].items() if key in kept}
    return {**obj, "metadata": metadata}


def rules(*resources: str, group: str = "", operations: tuple[str, ...] = ("*",), **more: Any) -> dict[str, Any]:
    """Return a rule for resources."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": [*resources],
        **more,
    }


def config_map(name: str = "c", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def says(*expressions: str, **more: Any) -> dict[str, Any]:
    """Return a policy with these validations."""
    return {"validations": [{"expression": text} for text in expressions], **more}


@dataclass(frozen=True, slots=True)
class Servers:
    """Both servers, each with an empty namespace of the same name."""

    ours: Api
    theirs: Api
    namespace: str

    @classmethod
    def start(cls, ours: Api, theirs: Api) -> Servers:
        """Make a namespace."""
        servers = cls(ours, theirs, f"admission-{next(_serial)}")
        labels = {"team": "a"}
        for api in (ours, theirs):
            namespace = {"metadata": {"name": servers.namespace, "labels": labels}}
            eventually(lambda: api.post("/api/v1/namespaces", namespace).status == 201)  # noqa: B023
        return servers

    def path(self, resource: str, name: str = "", group: str = "/api/v1") -> str:
        path = f"{group}/namespaces/{self.namespace}/{resource}"
        return f"{path}/{name}" if name else path

    def both(self, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        """Send a request to both, which must succeed; return the sandbox's answer."""
        our = self.ours.request(method, path, body, **query)
        assert our.status < 300, our.body
        # A policy that was removed still holds for a moment on the real server.
        eventually_equal(lambda: self.theirs.request(method, path, body, **query).status, our.status, 10.0)
        return our

    def policy(
        self, spec: dict[str, Any], binding: dict[str, Any] | None = None, sort: str = "validating", name: str = ""
    ) -> str:
        """Create a policy for the namespace, with a binding; return its name."""
        name = name or f"policy-{next(_serial)}"
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        constraints = {"namespaceSelector": selector, "resourceRules": [rules("configmaps")]}
        constraints |= spec.get("matchConstraints", {})
        self.both(
            "POST",
            f"{GROUP}/{sort}admissionpolicies",
            {"metadata": {"name": name}, "spec": {**spec, "matchConstraints": constraints}},
        )
        own = {"validationActions": ["Deny"]} if sort == "validating" else {}
        body = {"metadata": {"name": f"{name}-binding"}, "spec": {"policyName": name, **own, **(binding or {})}}
        self.both("POST", f"{GROUP}/{sort}admissionpolicybindings", body)
        return name

    def compare(self, method: str, path: str, body: Any = None, *, equal_after: float = 4.0, **query: Any) -> Shown:
        """Send a request to both, until a policy has reached the real server; return their equal answer."""
        wanted = verdict_of(self.ours.request(method, path, body, dryRun="All", **query))
        eventually_equal(
            lambda: verdict_of(self.theirs.request(method, path, body, dryRun="All", **query)), wanted, equal_after
        )
        return wanted

    def compare_objects(self, path: str, body: Any) -> dict[str, Any]:
        """Create an object on both, without storing it, until the results are equal."""
        stored = self.ours.post(path, body, dryRun="All").expect(201)
        wanted = without_server_fields(stored)
        eventually_equal(
            lambda: without_server_fields(self.theirs.post(path, body, dryRun="All").expect(201)), wanted, 30.0
        )
        return wanted
