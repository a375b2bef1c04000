"""The client that a plugin gets: it remembers what was written, and starts no write where none may be started."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ctrlhost.client import Client
    from ctrlhost.echo import Echoes
    from ctrlhost.written import Written


class WritingClient:
    """`Client` with the same methods; reads through the same context see what was written here."""

    def __init__(
        self, client: Client, written: Written, *, guard: Callable[[], None] | None = None, echoes: Echoes | None = None
    ) -> None:
        """Wrap a client; `guard` is called before each write, and forbids it by raising."""
        self._client = client
        self._written = written
        self._guard = guard
        self._echoes = echoes

    def __getattr__(self, name: str) -> Any:
        """Pass everything that is no write through to the client."""
        return getattr(self._client, name)

    def create(self, obj: Mapping[str, Any], owner: Any = None, **options: Any) -> dict[str, Any]:
        """Create an object, as `Client.create`."""
        with self._writing(obj["apiVersion"], obj["kind"], obj["metadata"]) as note:
            return note(self._client.create(obj, owner, **options))

    def replace(self, obj: Mapping[str, Any], subresource: str | None = None, **options: Any) -> dict[str, Any]:
        """Replace an object, as `Client.replace`."""
        with self._writing(obj["apiVersion"], obj["kind"], obj["metadata"], obj) as note:
            return note(self._client.replace(obj, subresource, **options))

    def apply(self, obj: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Apply an object, as `Client.apply`."""
        with self._writing(obj["apiVersion"], obj["kind"], obj["metadata"], obj) as note:
            return note(self._client.apply(obj, **options))

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None,
        patch: Any,
        *,
        type: str = "merge",  # noqa: A002 - the contract's name
        **options: Any,
    ) -> dict[str, Any]:
        """Patch an object, as `Client.patch`."""
        change = patch if type == "merge" else None
        with self._writing(api_version, kind, {"name": name, "namespace": namespace}, change) as note:
            return note(self._client.patch(api_version, kind, name, namespace, patch, type=type, **options))

    def delete(
        self, api_version: str, kind: str, name: str, namespace: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Delete an object, as `Client.delete`."""
        with self._writing(api_version, kind, {"name": name, "namespace": namespace}) as note:
            answer: dict[str, Any] = self._client.delete(api_version, kind, name, namespace, **options)
            if answer.get("kind") != "Status" and answer.get("metadata", {}).get("deletionTimestamp"):
                # It stays for its finalizers or its grace period; the answer shows it as it is until then.
                return note(answer)
            source = answer.get("details") if answer.get("kind") == "Status" else answer.get("metadata")
            for followed in self._written.of(api_version, kind):
                followed.deleted((namespace or "", name), (source or {}).get("uid", ""))
            return answer

    def delete_collection(self, api_version: str, kind: str, namespace: str | None = None, **options: Any) -> Any:
        """Delete many objects, as `Client.delete_collection`; reads do not wait for the effect of this one."""
        if self._guard is not None:
            self._guard()
        return self._client.delete_collection(api_version, kind, namespace, **options)

    @contextmanager
    def _writing(
        self, api_version: str, kind: str, metadata: Mapping[str, Any], change: Any = None
    ) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
        """Hold back readers of echoes while a write is under way, and give the function that notes its answer."""
        if self._guard is not None:
            self._guard()
        key = (metadata.get("namespace") or "", metadata.get("name") or "")
        followed = self._written.of(api_version, kind)

        def note(answer: dict[str, Any]) -> dict[str, Any]:
            if self._echoes is not None:
                self._echoes.wrote(api_version, kind, change, answer)
            for one in followed:
                one.wrote(answer)
            return answer

        for one in followed:
            one.begin(key)
        try:
            yield note
        finally:
            for one in followed:
                one.end(key)
