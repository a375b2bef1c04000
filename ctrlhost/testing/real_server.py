"""A real API server that tests run on: a namespace for each test, and the removal of what the test created."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import yaml

from ctrlhost.client import Client
from ctrlhost.errors import Forbidden
from ctrlhost.kubeconfig.file import KubeConfig
from ctrlhost.kubeconfig.load import from_files
from ctrlhost.testing.record import RecordingTransport, RequestRecord
from ctrlhost.transport.responses import decode_object

if TYPE_CHECKING:
    from ctrlhost.kubeconfig.file import Entry
    from ctrlhost.testing.record import Written

#: The beginning of the names of the namespaces of tests.
PREFIX = "ctrlhost-test-"
#: Seconds that what a test created may take to disappear.
_GONE = 30.0
#: Seconds until a server enforces a new role.
_GRANTED = 30.0
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"
#: These go last, in this order.
_LAST = ("namespaces", _CRDS)


@dataclass(frozen=True, slots=True)
class Address:
    """A context of a kubeconfig; its current one without a name."""

    kubeconfig: Path
    context: str | None = None

    @classmethod
    def of(cls, text: str) -> Address:
        """Read `PATH` or `PATH@CONTEXT`; either may contain `@`, as the names of many contexts do."""
        parts = text.split("@")
        for end in range(len(parts), 0, -1):
            path = Path("@".join(parts[:end])).expanduser()
            if end == 1 or path.exists():
                break
        return cls(path, "@".join(parts[end:]) or None)

    def is_loopback(self) -> bool:
        """Return whether the server is on this machine. Sends nothing; ConfigError for an invalid kubeconfig."""
        configuration = from_files([self.kubeconfig], self.context, "--ctrlhost-server").configuration
        host = urlsplit(str(configuration.host)).hostname or ""
        if configuration.proxy:
            # It may be on another machine, whose loopback address that is.
            return False
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host).is_loopback
        return host == "localhost"


class RealServer:
    """One API server during one test. For use by one thread."""

    def __init__(self, address: Address) -> None:
        """Create a namespace for the test; ConfigError or ApiError if that is impossible."""
        self.namespace = PREFIX + secrets.token_hex(4)
        self._directory = Path(tempfile.mkdtemp(prefix="ctrlhost-test-"))
        self._address = address
        #: The path of a kubeconfig whose current context is that of the address, with the test's namespace.
        self.kubeconfig = self._write("kubeconfig", None)
        record = RequestRecord()
        #: What the test itself and its hosts write.
        self.records = [record]
        transport = Client.load(self.kubeconfig).transport
        #: The test's own client.
        self.client = Client.over(RecordingTransport(transport, record), namespace=self.namespace)
        try:
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        except BaseException:
            self._close()
            raise

    def kubeconfig_for(self, service_account: str) -> Path:
        """Return a kubeconfig for an account of the test's namespace."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": service_account, "namespace": self.namespace},
            "spec": {"expirationSeconds": 3600},
        }
        token = self.client.create(request, subresource="token")["status"]["token"]
        return self._write(f"kubeconfig-{service_account}", {"token": token})

    def wait_until_granted(self, kubeconfig: Path, group: str, resource: str, verb: str, namespace: str) -> None:
        """Wait until the server enforces a right that it was just given; Forbidden after 30 seconds."""
        plural, _, subresource = resource.partition("/")
        question = {
            "group": group,
            "resource": plural,
            "subresource": subresource,
            "verb": verb,
            "namespace": namespace,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": question},
        }
        client, deadline = Client.load(kubeconfig), time.monotonic() + _GRANTED
        body, headers = msgspec.json.encode(review), {"Content-Type": "application/json"}

        def granted() -> bool:
            answer = client.transport.request("POST", _REVIEWS, body=body, headers=headers)
            return bool(decode_object(answer, f"POST {_REVIEWS}")["status"].get("allowed"))

        try:
            while not granted():
                if time.monotonic() >= deadline:
                    raise Forbidden(f"the server does not let the host {verb} {resource}, although a role does")
                time.sleep(0.05)
        finally:
            client.close()

    def clean(self) -> None:
        """Delete what the test and its hosts created, and wait until cluster-scoped objects are gone.

        What existed before stays. Finalizers are removed, since the hosts have ended. TimeoutError after 30 seconds.
        """
        try:
            created = [creation for record in self.records for creation in record.created()]
            created.sort(key=lambda creation: _LAST.index(creation.resource) if creation.resource in _LAST else -1)
            for creation in created:
                self._delete(creation)
            deadline = time.monotonic() + _GONE
            for creation in created:
                while creation.resource != "namespaces" and self._exists(creation):
                    if time.monotonic() >= deadline:
                        raise TimeoutError(f"{creation.path} was not deleted within {_GONE:g} s")
                    time.sleep(0.05)
        finally:
            self._close()

    def _delete(self, written: Written) -> None:
        query: dict[str, str | int | bool | None] = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
        answer = self.client.transport.request("DELETE", written.path, query=query)
        if answer.status == 200 and written.resource not in _LAST:
            patch = b'{"metadata":{"finalizers":null}}'
            headers = {"Content-Type": "application/merge-patch+json"}
            self.client.transport.request("PATCH", written.path, body=patch, headers=headers)

    def _exists(self, written: Written) -> bool:
        return self.client.transport.request("GET", written.path).status == 200

    def _close(self) -> None:
        self.client.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _write(self, name: str, user: dict[str, Any] | None) -> Path:
        """Write the context of the address as the only one, for another user if one is given."""
        config = KubeConfig.read([self._address.kubeconfig])
        _, context = config.context(self._address.context)
        cluster = _with_paths(config.named("clusters", context.text("cluster"), context), "certificate-authority")
        known = context.optional_text("user")
        if user is None and known:
            user = _with_paths(config.named("users", known, context), "client-certificate", "client-key", "tokenFile")
        named = {"cluster": "server", "user": "user", "namespace": self.namespace}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "server", "cluster": cluster}],
            "users": [{"name": "user", "user": user or {}}],
            "contexts": [{"name": "test", "context": named}],
        }
        path = self._directory / name
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return path


def _with_paths(entry: Entry, *files: str) -> dict[str, Any]:
    """Return an entry of a kubeconfig with the paths of these files made absolute."""
    resolved: dict[str, Any] = {
        name: str(Path(path).resolve()) for name in files if (path := entry.file(name)) is not None
    }
    program = entry.value.get("exec")
    if isinstance(program, dict) and "/" in str(program.get("command")):
        resolved["exec"] = {**program, "command": str((entry.file_name.parent / program["command"]).resolve())}
    return {**entry.value, **resolved}
