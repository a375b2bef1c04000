"""The objects that `ctrlhost dev` applies at its start, each as soon as its kind is served."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError, CtrlhostError, NotFound, TransportError
from ctrlhost.yaml_text import load_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ctrlhost.client import Client

_FIELD_MANAGER = "ctrlhost-dev"
#: Seconds after which a line says what the objects wait for: the CRDs of the plugins come a little later.
_PATIENCE = 3.0
#: Seconds for a request: its caller looks for changes of sources, and for the request to end, in between.
_TIMEOUT = 2.0


class StartObjects:
    """Objects of files that wait to be applied. For use by one thread."""

    def __init__(self, objects: Iterable[dict[str, Any]], patience: float = _PATIENCE) -> None:
        """Hold `objects`; this sends nothing. After `patience` seconds, `apply` also tells what they wait for."""
        self._waiting = list(objects)
        self._patience = patience
        self._since: float | None = None
        #: What was told.
        self._reasons: set[str] = set()
        self._client: Client | None = None

    @classmethod
    def read(cls, files: Iterable[Path]) -> StartObjects:
        """Read YAML files of any number of documents; ConfigError if one cannot be read or holds something else."""
        return cls(obj for file in files for obj in _objects_in(file))

    def open(self, kubeconfig: str, context: str | None) -> None:
        """Use the cluster of a kubeconfig."""
        from ctrlhost.client import Client

        if self._waiting:
            self._client = Client.load(kubeconfig, context=context)

    def apply(self) -> list[str]:
        """Apply what can be applied now, in the order of the files; return a line for each object that is done.

        What has a kind that is not served yet, or a namespace that does not exist yet, waits; a line tells each reason
        once.
        """
        lines = []
        now = time.monotonic()
        self._since = self._since or now
        for obj in list(self._waiting):
            if self._client is None:
                break
            name = f"{obj['kind']} {_name_of(obj)}"
            try:
                if "name" in obj["metadata"]:
                    self._client.apply(obj, field_manager=_FIELD_MANAGER, timeout=_TIMEOUT)
                else:
                    name = f"{obj['kind']} {self._client.create(obj, timeout=_TIMEOUT)['metadata']['name']}"
            except (NotFound, TransportError) as error:
                reason = str(error)
                if now - self._since >= self._patience and reason not in self._reasons:
                    self._reasons.add(reason)
                    lines.append(f"{name} waits: {reason}")
                if isinstance(error, TransportError):
                    # The others would wait as long for the server.
                    break
                continue
            except (CtrlhostError, ValueError, TypeError, RecursionError) as error:
                lines.append(f"{name} was not applied: {error}")
            else:
                lines.append(f"applied {name}")
            self._waiting.remove(obj)
        return lines

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


def _objects_in(file: Path) -> Iterator[dict[str, Any]]:
    try:
        objects = load_objects(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}", hint="--manifest takes a YAML file") from None
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None
    for obj in objects:
        parts = (obj.get("apiVersion"), obj.get("kind"), _name_of(obj))
        if not all(isinstance(part, str) and part for part in parts):
            needs = "apiVersion, kind, and metadata.name or generateName, as texts"
            raise ConfigError(f"{file}: a document is no object: it needs {needs}")
        yield obj


def _name_of(obj: Mapping[str, Any]) -> Any:
    """Return the name of an object, or the beginning of the one that the server makes."""
    metadata = obj.get("metadata")
    return metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
