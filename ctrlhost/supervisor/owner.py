"""What an attempt to run a plugin needs of the plugin's runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from ctrlhost.config.settings import Supervision
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.supervisor.containment import Failure
    from ctrlhost.supervisor.loader import Plugin

Progress = Literal["starting", "syncing", "waiting", "running"]


class Owner(Protocol):
    """The runtime of a plugin, which outlives its attempts."""

    name: str
    #: What the host allows the plugin.
    supervision: Supervision
    #: Set by the host when the plugin may be set up, when all informers are declared, and when the host is complete.
    may_set_up: threading.Event
    may_run: threading.Event
    may_work: threading.Event
    #: Whether to install the plugin's CRDs.
    with_crds: bool | Literal["force"]

    @property
    def waits_for(self) -> Sequence[threading.Event]:
        """The `crds_tried` of the plugin's peers."""

    #: Set when the plugin's CRDs are installed, or cannot be installed for now.
    crds_tried: threading.Event
    services: PluginServices | None
    #: The plugin once it is loaded here.
    plugin: Plugin | None
    #: The rules that the plugin's account lacks, one line each.
    missing_rights: tuple[str, ...]
    #: Installs CRDs and objects as `install_crds`.
    install: Callable[..., bool]

    def load(self) -> Plugin:
        """Return the plugin, imported by the first attempt that can."""

    def read_settings(self, plugin: Plugin) -> Any:
        """Return the plugin's settings; ConfigError if they are invalid."""

    def opened(self, context: PluginContext, ending: threading.Event) -> None:
        """Serve the listeners of a plugin until `ending`; ConfigError for an address that cannot be bound."""

    def closed(self) -> None:
        """End the listeners of the plugin, which run on its loop."""

    def left_behind(self, task: str) -> bool:
        """Return whether a task of this name still runs for an earlier attempt."""

    def report(self, attempt: object, state: Progress, reason: str) -> None:
        """Note the progress of an attempt."""

    def attempt_failed(self, attempt: object, failure: Failure) -> None:
        """Note that an attempt has failed, and end it."""
