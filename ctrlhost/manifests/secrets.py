"""Secret settings of plugins: references to Secrets of the cluster in place of values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.config.types import canonical
from ctrlhost.errors import ConfigError
from ctrlhost.manifests.secret_values import secret_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost.manifests.loading import SetUpPlugin

_MOUNTED = "/etc/ctrlhost-secrets"
_SETTING = re.compile(r"(?P<plugin>[^./=]+)\.(?P<key>[^/=]+)=(?P<secret>[^/=]+)/(?P<entry>[^/=]+)")
_SECRET = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ENTRY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
#: Readable by root and by the group of the pod.
_MODE = 0o440


@dataclass(frozen=True, slots=True)
class SecretReference:
    """One setting of a plugin whose value is an entry of a Secret in the namespace of the Deployment."""

    plugin: str
    key: str
    secret: str
    entry: str
    #: Whether the setting is the content of a mounted file, which changes with the Secret at the next start.
    mounted: bool

    @classmethod
    def parse(cls, text: str, *, mounted: bool) -> SecretReference:
        """Parse `NAME.key=SECRET/KEY`; ConfigError for anything else."""
        flag = "--secret-file" if mounted else "--secret"
        match = _SETTING.fullmatch(text)
        if not match or not _SECRET.fullmatch(match["secret"]) or not _ENTRY.fullmatch(match["entry"]):
            raise ConfigError(
                f"{flag} {text}: expected NAME.key=SECRET/KEY", hint=f"as in `{flag} naming.token=naming/token`"
            )
        plugin, key = match["plugin"].strip(), match["key"].strip()
        return cls(plugin, key, match["secret"], match["entry"], mounted)

    @property
    def flag(self) -> str:
        """The option that gave it."""
        return f"--{'secret-file' if self.mounted else 'secret'} {self.plugin}.{self.key}"

    @property
    def path(self) -> str:
        """Where a mounted one is."""
        return f"{_MOUNTED}/{self.secret}/{self.entry}"

    @property
    def variable(self) -> dict[str, Any]:
        """The entry of the container's environment."""
        name = "__".join(("CTRLHOST_PLUGINS", canonical(self.plugin), *map(canonical, self.key.split(".")))).upper()
        if self.mounted:
            return {"name": f"{name}_FILE", "value": self.path}
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": self.secret, "key": self.entry}}}


def volumes(references: Iterable[SecretReference]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the volumes of the mounted references, one per Secret, and where the container mounts them."""
    entries: dict[str, list[str]] = {}
    for reference in references:
        if reference.mounted and reference.entry not in entries.setdefault(reference.secret, []):
            entries[reference.secret].append(reference.entry)
    volumes_made, mounts = [], []
    for number, (secret, keys) in enumerate(sorted(entries.items())):
        items = [{"key": key, "path": key} for key in sorted(keys)]
        source = {"secretName": secret, "defaultMode": _MODE, "items": items}
        volumes_made.append({"name": f"secret-{number}", "secret": source})
        mounts.append({"name": f"secret-{number}", "mountPath": f"{_MOUNTED}/{secret}", "readOnly": True})
    return volumes_made, mounts


def check_mounted(references: Iterable[SecretReference], plugins: Iterable[SetUpPlugin]) -> None:
    """Reject mounted files for settings that are no secrets: only those are read from files."""
    secret = {
        (canonical(plugin.name), canonical(key))
        for plugin in plugins
        for key in secret_settings(plugin.plugin.settings_type())
    }
    for reference in references:
        if reference.mounted and (canonical(reference.plugin), canonical(reference.key)) not in secret:
            raise ConfigError(
                f"{reference.flag}: the setting is not a secret, so it cannot be read from a file",
                hint=f"write `--secret {reference.plugin}.{reference.key}={reference.secret}/{reference.entry}`",
            )


def check_references(references: Sequence[SecretReference], plugins: Iterable[str]) -> None:
    """Reject references for plugins that the host does not run, and two for one setting."""
    known = {canonical(name) for name in plugins}
    seen: set[tuple[str, str]] = set()
    for reference in references:
        setting = canonical(reference.plugin), canonical(reference.key)
        if setting[0] not in known:
            raise ConfigError(f"{reference.flag}: the host runs no plugin `{reference.plugin}`")
        if setting in seen:
            raise ConfigError(f"{reference.flag}: the setting has two Secrets")
        seen.add(setting)
