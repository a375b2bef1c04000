"""The kinds that a controller owns, and what it may write of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost.errors import PluginError, UndeclaredRead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.controller.source import Writes
    from ctrlhost.controller.sources import Owns


@dataclass(frozen=True, slots=True)
class OwnedKinds:
    """The `owns` of one controller, by apiVersion and kind; the first one of a kind counts."""

    plugin: str
    #: As `plugin/name`.
    controller: str
    kinds: Sequence[Owns]

    def to_ensure(self, api_version: str, kind: str) -> None:
        """Raise UndeclaredRead for a kind that is not owned, and PluginError for one that is only read."""
        owns = self._find(api_version, kind)
        if owns.reads is not None:
            raise PluginError(
                self.plugin,
                f"controller `{self.controller}` cannot ensure a {kind}: it caches only a part of it (`reads=`)",
                hint=f"drop `reads=` from its `Owns`: `owns=[{_reference(api_version, kind)}]`",
            )
        if not owns.ensure:
            raise PluginError(
                self.plugin,
                f"controller `{self.controller}` only reads {kind} ({api_version}): its `Owns` has `ensure=False`",
                hint=f"drop `ensure=False`: `owns=[{_reference(api_version, kind)}]`",
            )

    def to_prune(self, api_version: str, kind: str) -> None:
        """Raise UndeclaredRead for a kind that is not owned, and PluginError for one without `prune=True`."""
        if not self._find(api_version, kind).prune:
            raise PluginError(
                self.plugin,
                f"controller `{self.controller}` does not prune {kind} ({api_version})",
                hint=f"allow it: `owns=[ctrlhost.Owns({_reference(api_version, kind)}, prune=True)]`",
            )

    def _find(self, api_version: str, kind: str) -> Owns:
        for owns in self.kinds:
            if (owns.api_version, owns.kind) == (api_version, kind):
                return owns
        owned = ", ".join(f"{one.kind} ({one.api_version})" for one in self.kinds) or "nothing"
        raise UndeclaredRead(
            self.plugin,
            f"controller `{self.controller}` writes {kind} ({api_version}) without declaring it; it owns {owned}",
            hint=f"add it to `@plugin.controller(…, owns=[{_reference(api_version, kind)}])`",
        )


def writes_of(owns: Owns) -> Writes:
    """Return what `ctx.ensure` and `ctx.prune` need of an owned kind."""
    verbs = ("get", "create", "patch") if is_ensured(owns) else ()
    return (("", (*verbs, "delete") if owns.prune else verbs),) if verbs or owns.prune else ()


def writes_of_owner(owns: Sequence[Owns]) -> Writes:
    """Return what `blockOwnerDeletion` of the owned objects needs of their owner's kind."""
    return (("finalizers", ("update",)),) if any(is_ensured(one) for one in owns) else ()


def is_ensured(owns: Owns) -> bool:
    """Return whether `ctx.ensure` may write the kind; not if only parts of its objects are cached."""
    return owns.ensure and owns.reads is None


def _reference(api_version: str, kind: str) -> str:
    return f'"{api_version}/{kind}"'
