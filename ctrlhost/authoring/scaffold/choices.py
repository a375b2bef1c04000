"""What the author of a new plugin chooses, checked before anything is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING

from ctrlhost.authoring.scaffold.owned import OWNED, Owned
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_GROUP = re.compile(rf"{_LABEL}(\.{_LABEL})+")
#: The most characters of names and kinds, and of groups: no line of the code gets too long.
_LONGEST, _LONGEST_GROUP = 40, 70
#: Other names of the generated code.
_TAKEN = frozenset(
    {"Annotated", "EXAMPLE", "HostUnderTest", "OWNED", "Path", "Settings", "Spec", "StartHost", "Status"}
)
#: Groups of Kubernetes itself, whose CRDs a server refuses without an approval.
_PROTECTED = (".k8s.io", ".kubernetes.io")
#: What a plugin owns by default.
_DEFAULT_OWNED = "apps/v1/Deployment"


@dataclass(frozen=True, slots=True)
class Choices:
    """A new plugin; `kind` and `group` are empty for one that reconciles ConfigMaps by label."""

    name: str
    kind: str
    group: str
    owns: tuple[Owned, ...]
    cluster_scoped: bool

    @classmethod
    def checked(
        cls,
        name: str,
        *,
        kind: str | None = None,
        group: str | None = None,
        owns: Sequence[str] = (),
        cluster_scoped: bool = False,
        reserved: Collection[str] = (),
    ) -> Choices:
        """Return the choices; ConfigError with the rule for one that cannot be had. `reserved` are no plugin names."""
        if not _NAME.fullmatch(name) or name.endswith("-") or "--" in name or len(name) > _LONGEST:
            raise ConfigError(
                f"invalid name `{name}` of a plugin: it must match `{_NAME.pattern}`",
                hint="at most 40 characters, and hyphens only between others",
            )
        if name in reserved:
            raise ConfigError(f"invalid name `{name}` of a plugin: the host reserves it, as it does names of commands")
        if kind is None:
            for flag, is_set in (("--group", group is not None), ("--cluster-scoped", cluster_scoped)):
                if is_set:
                    raise ConfigError(f"{flag} needs --kind: without it the plugin reconciles ConfigMaps")
        elif not _KIND.fullmatch(kind) or len(kind) > _LONGEST:
            raise ConfigError(
                f"--kind: invalid kind `{kind}`: it must match `{_KIND.pattern}`", hint="at most 40 characters"
            )
        elif kind in _TAKEN or iskeyword(kind) or kind.startswith("Test"):
            taken = f"the code itself uses {', '.join(sorted(_TAKEN))}"
            raise ConfigError(
                f"--kind: `{kind}` cannot be the name of a class in the plugin and its tests",
                hint=f"{taken}, Python its keywords, and pytest names that begin with `Test`",
            )
        if group is not None and (not _GROUP.fullmatch(group) or len(group) > _LONGEST_GROUP):
            raise ConfigError(
                f"--group: invalid group `{group}`: it must be a domain such as `cache.example.com`",
                hint=f"in lower case, with at most {_LONGEST_GROUP} characters",
            )
        if group is not None and f".{group}".endswith(_PROTECTED):
            raise ConfigError(
                f"--group: invalid group `{group}`: servers accept `k8s.io` and `kubernetes.io` from Kubernetes only",
                hint="choose one below a domain of your own",
            )
        chosen = dict.fromkeys(owns) or {_DEFAULT_OWNED: None}
        for reference in chosen:
            if reference not in OWNED:
                raise ConfigError(
                    f"--owns: there is no template for `{reference}`; there are {', '.join(sorted(OWNED))}",
                    hint="start with one of them, and change the object in the reconciler",
                )
        # Workloads first: the status tells about the first one.
        owned = sorted((OWNED[reference] for reference in chosen), key=lambda kind: not kind.has_replicas)
        return cls(name, kind or "", (group or f"{name}.example.com") if kind else "", tuple(owned), cluster_scoped)

    @property
    def module(self) -> str:
        """The name of the package."""
        return f"ctrlhost_{self.name.replace('-', '_')}"

    @property
    def distribution(self) -> str:
        """The name of the distribution."""
        return f"ctrlhost-{self.name}"

    @property
    def reconciled(self) -> str:
        """The reconciled kind."""
        return self.kind or "ConfigMap"

    @property
    def file(self) -> str:
        """The reconciled kind in the names of files."""
        return self.reconciled.lower()

    @property
    def label(self) -> str:
        """The label of ConfigMaps to reconcile, without a kind of its own."""
        return f"{self.name}.example.com/managed"
