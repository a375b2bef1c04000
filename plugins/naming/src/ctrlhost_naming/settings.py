"""The plugin's settings, under `[plugins.naming]`."""

from __future__ import annotations

from typing import Literal

import msgspec

from ctrlhost import Duration
from ctrlhost_naming.decision import Mode


class NamingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the naming controller."""

    mode: Mode = Mode.OBSERVE
    """`observe` compares and reports; `repair` also fixes outdated conditions; `enforce` is the naming controller of a
    server that has none."""

    groups: tuple[str, ...] = ()
    """API groups to watch; empty means all."""

    diff_grace: Duration = Duration("30s")
    """How long a difference must last before it is reported."""

    allow_own_names: bool = False
    """Accept a resource name that only the CRD itself holds. Only in `enforce`, and not together with the server's own
    controller, which refuses such names."""

    establish: Literal["auto", "off"] = "auto"
    """Whether `enforce` also sets Established; `auto` does so unless the server has its own controller."""

    establish_delay: Duration = Duration("0s")
    """The delay between accepting names and establishing; `5s` if several API servers must see the names first."""

    force: bool = False
    """Run `enforce` even if the server has its own naming controller."""

    def __post_init__(self) -> None:
        """Reject contradictory settings."""
        if self.allow_own_names and self.mode is not Mode.ENFORCE:
            raise ValueError("`allow_own_names` requires mode `enforce`")
        if self.allow_own_names and self.force:
            raise ValueError(
                "`allow_own_names` and `force` cannot be combined: they would fight the server's controller for ever"
            )
