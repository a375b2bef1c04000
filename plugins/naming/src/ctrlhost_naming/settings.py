"""The plugin's settings, as they stand under `[plugins.naming]`."""

from __future__ import annotations

from typing import Literal

import msgspec

from ctrlhost import Duration
from ctrlhost_naming.decision import Mode


class NamingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator may choose."""

    mode: Literal["observe", "repair", "enforce"] = "observe"
    """`observe` compares and reports, `repair` also cures conditions that are out of date, `enforce` is the naming
    controller of a server that has none."""

    groups: tuple[str, ...] = ()
    """API groups to look at; none means all."""

    diff_grace: Duration = Duration("30s")
    """How long a difference must last before it is reported."""

    allow_own_names: bool = False
    """Accept a resource name that only the CRD itself holds; only in `enforce`, and never beside a server's own
    controller, which refuses it."""

    establish: Literal["auto", "off"] = "auto"
    """Whether `enforce` also sets Established; `auto` does so unless the server has a controller of its own."""

    establish_delay: Duration = Duration("0s")
    """How long after its names were accepted a CRD is established; 5s where several API servers must see it first."""

    force: bool = False
    """Run `enforce` although the server has a naming controller of its own."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.allow_own_names and self.mode != "enforce":
            raise ValueError("`allow_own_names` has a meaning in mode `enforce` only")
        if self.allow_own_names and self.force:
            raise ValueError("`allow_own_names` and `force` together would fight the server's own controller for ever")

    @property
    def how(self) -> Mode:
        """The mode."""
        return Mode(self.mode)
