"""The kinds that a controller may write with `ctx.ensure` and `ctx.prune`, and the rights that this takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost.controller.sources import Owns, Watches
from ctrlhost.controller.undeclared import undeclared_hint
from ctrlhost.declarative.tracked import Tracked
from ctrlhost.errors import PluginError, UndeclaredRead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.controller.source import KindSource, Writes


@dataclass(frozen=True, slots=True)
class OwnedKinds:
    """The sources of one controller that it may write, by apiVersion and kind; the first one of a kind counts."""

    plugin: str
    #: As `plugin/name`.
    controller: str
    kinds: Sequence[KindSource]

    @property
    def tracked(self) -> list[Tracked]:
        """The kinds whose objects are tied to their owner by a label."""
        return [source for source in self.kinds if isinstance(source, Tracked)]

    def to_ensure(self, api_version: str, kind: str, *, owned: bool) -> Owns | Watches:
        """Return the source; raise UndeclaredRead for an undeclared kind, and PluginError for one that is only read.

        With `owned`, the object is to have an owner, which one of `Watches` cannot have: its changes go to its map.
        """
        source = self._find(api_version, kind)
        if source.reads is not None:
            raise PluginError(
                self.plugin,
                f"controller `{self.controller}` cannot ensure a {kind}: it caches only a part of it (`reads=`)",
                hint=f"drop `reads=` from its `{type(source).__name__}`",
            )
        if isinstance(source, Watches) and owned:
            raise PluginError(
                self.plugin,
                f"controller `{self.controller}` watches {kind} ({api_version}) and does not own it",
                hint=f"pass `owner=None`, or declare `owns=[{_reference(api_version, kind)}]`",
            )
        if not source.ensure:
            raise PluginError(
                self.plugin,
                f"controller `{self.controller}` only reads {kind} ({api_version}): its `Owns` has `ensure=False`",
                hint=f"drop `ensure=False`: `owns=[{_reference(api_version, kind)}]`",
            )
        return source

    def to_prune(self, api_version: str, kind: str) -> Owns:
        """Return the source.

        UndeclaredRead for a kind that is not owned, PluginError for one without `prune=True`.
        """
        source = self._find(api_version, kind)
        if not (isinstance(source, Owns) and source.prune):
            raise PluginError(
                self.plugin,
                f"controller `{self.controller}` does not prune {kind} ({api_version})",
                hint=f"allow it: `owns=[ctrlhost.Owns({_reference(api_version, kind)}, prune=True)]`",
            )
        return source

    def _find(self, api_version: str, kind: str) -> Owns | Watches:
        written = [
            source
            for source in self.kinds
            if isinstance(source, Owns) or (isinstance(source, Watches) and source.ensure)
        ]
        for source in written:
            if (source.api_version, source.kind) == (api_version, kind):
                return source
        owned = ", ".join(f"{source.kind} ({source.api_version})" for source in written) or "nothing"
        raise UndeclaredRead(
            self.plugin,
            f"controller `{self.controller}` writes {kind} ({api_version}) without declaring it; it owns {owned}",
            hint=undeclared_hint(
                api_version,
                kind,
                [(source.api_version, source.kind) for source in written],
                'add it to `@plugin.controller(…, owns=["{api_version}/{kind}"])`',
            ),
        )


def writes_of(source: Owns | Watches) -> Writes:
    """Return what `ctx.ensure` and `ctx.prune` need of a kind."""
    ensures = ("get", "create", "patch") if is_ensured(source) else ()
    prunes = ("delete",) if isinstance(source, Owns) and (source.prune or source.track) else ()
    return (("", (*ensures, *prunes)),) if ensures or prunes else ()


def writes_of_owner(owns: Sequence[Owns]) -> Writes:
    """Return what `blockOwnerDeletion` of the owned objects needs of their owner's kind."""
    return (("finalizers", ("update",)),) if any(is_ensured(own) and not own.track for own in owns) else ()


def is_ensured(source: Owns | Watches) -> bool:
    """Return whether `ctx.ensure` may write the kind; not if only parts of its objects are cached."""
    return source.ensure and source.reads is None


def _reference(api_version: str, kind: str) -> str:
    return f'"{api_version}/{kind}"'
