"""The logs of containers, which run nothing: generated lines at the start and at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.http.channel import chunk

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.http.channel import Channel
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.storage.store import Event


def lines_of(pod: Object, container: str) -> list[str]:
    """Return the lines so far of a container that has started."""
    started = pod["status"]["startTime"]
    lines = [f"{started} {container} started", f"{started} {container} runs nothing: this is a sandbox"]
    ended = _ended(pod, container)
    return lines if ended is None else [*lines, _last_line(container, ended)]


def has_ended(pod: Object, container: str) -> bool:
    """Return whether nothing more is logged."""
    return _ended(pod, container) is not None or pod["status"].get("phase") in ("Succeeded", "Failed")


def text(lines: list[str]) -> bytes:
    """Return lines as a body."""
    return "".join(f"{line}\n" for line in lines).encode()


class FollowedLog:
    """A log that continues until the container ends or its pod is gone."""

    content_type = "text/plain"

    def __init__(self, context: ServerContext, operation: Operation, container: str, lines: list[str]) -> None:
        """Begin with these lines; sending starts with `opened`."""
        self.headers: list[tuple[str, str]] = []
        self._table = context.store.table(operation.kind.table)
        self._key = operation.namespace, operation.name
        self._container, self._lines = container, lines
        self._channel: Channel | None = None

    def opened(self, channel: Channel) -> None:
        """Send the lines so far, and follow the pod."""
        self._channel = channel
        if self._lines:
            channel.send(chunk(text(self._lines)))
        self._table.watchers[self._event] = None

    def closed(self) -> None:
        """Stop following."""
        self._table.watchers.pop(self._event, None)
        self._channel = None

    def _event(self, event: Event) -> None:
        channel = self._channel
        if channel is None or event.latest.key != self._key:
            return
        pod = None if event.new is None else event.new.decode()
        if pod is not None and not has_ended(pod, self._container):
            return
        ended = None if pod is None else _ended(pod, self._container)
        if ended is not None:
            channel.send(chunk(text([_last_line(self._container, ended)])))
        channel.end()


def _ended(pod: Object, container: str) -> dict[str, Any] | None:
    """Return how a container ended; None if it has not."""
    for item in pod["status"].get("containerStatuses") or ():
        if item["name"] == container:
            terminated: dict[str, Any] | None = (item.get("state") or {}).get("terminated")
            return terminated
    return None


def _last_line(container: str, ended: dict[str, Any]) -> str:
    return f"{ended.get('finishedAt')} {container} exited with code {ended.get('exitCode', 0)}"
