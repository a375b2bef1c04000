"""The settings of an operator, as kopf names them. Any attribute can be set; the page says which have an effect."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, make_dataclass
from typing import Any

from ctrlhost_kopf.storages import AnnotationsDiffBaseStorage, SmartProgressStorage

_DELAYS = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610)


def _part(name: str, /, **defaults: Any) -> Any:
    """Return the class of a part of the settings; a default that is a type is made anew for each operator."""
    fields = [
        (key, Any, field(default_factory=value) if isinstance(value, type) else field(default=value))
        for key, value in defaults.items()
    ]
    return make_dataclass(name, fields)


_Peering: Any = _part(
    "PeeringSettings",
    name="default",
    stealth=False,
    priority=0,
    lifetime=60,
    mandatory=False,
    standalone=False,
    clusterwide=False,
)
_Execution: Any = _part("ExecutionSettings", default_backoff=60, executor=ThreadPoolExecutor)


class PeeringSettings(_Peering):  # type: ignore[misc] # made from its defaults
    """Of peering; the host's leader election takes its place."""

    @property
    def namespaced(self) -> bool:
        """The contrary of `clusterwide`."""
        return not self.clusterwide

    @namespaced.setter
    def namespaced(self, value: bool) -> None:
        self.clusterwide = not value


class ExecutionSettings(_Execution):  # type: ignore[misc] # made from its defaults
    """Of the calls of handlers."""

    @property
    def max_workers(self) -> int | None:
        """The threads for handlers that are plain functions; ValueError for less than one."""
        return getattr(self.executor, "_max_workers", None)

    @max_workers.setter
    def max_workers(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"max_workers must be at least 1, got {value}")
        if not hasattr(self.executor, "_max_workers"):
            raise TypeError(f"{self.executor!r} has no number of threads")
        self.executor._max_workers = value  # noqa: SLF001 - as kopf does


_PARTS = {
    "process": _part("ProcessSettings", ultimate_exiting_timeout=600),
    "posting": _part(
        "PostingSettings",
        enabled=True,
        loggers=False,
        level=logging.INFO,
        reporting_component="kopf",
        reporting_instance="dev",
        event_name_prefix="kopf-event-",
        default_backoffs=_DELAYS[:8],
        logging_backoffs=_DELAYS[:5],
        worker_limit=None,
        idle_timeout=1.0,
    ),
    "peering": PeeringSettings,
    "watching": _part(
        "WatchingSettings",
        server_timeout=None,
        client_timeout=None,
        connect_timeout=None,
        reconnect_backoff=0.1,
        inactivity_timeout=70.0,
        chunk_size=None,
        initial_streaming=False,
        label_selectors=dict,
        field_selectors=dict,
        shard_selectors=dict,
    ),
    "queueing": _part(
        "QueueingSettings",
        worker_limit=None,
        idle_timeout=5.0,
        exit_timeout=2.0,
        error_delays=_DELAYS,
        batch_window=0.1,
    ),
    "scanning": _part("ScanningSettings", disabled=False),
    "admission": _part("AdmissionSettings", server=None, managed=None),
    "execution": ExecutionSettings,
    "background": _part(
        "BackgroundSettings", cancellation_polling=60, instant_exit_timeout=None, instant_exit_zero_time_cycles=10
    ),
    "networking": _part(
        "NetworkingSettings",
        request_timeout=300,
        connect_timeout=None,
        error_backoffs=_DELAYS[:8],
        enforce_retry_after=False,
        trust_env=False,
    ),
    "persistence": _part(
        "PersistenceSettings",
        finalizer="kopf.zalando.org/KopfFinalizerMarker",
        progress_storage=SmartProgressStorage,
        diffbase_storage=AnnotationsDiffBaseStorage,
        consistency_timeout=5.0,
    ),
}


_Settings: Any = make_dataclass(
    "OperatorSettings", [(k, Any, field(default_factory=part)) for k, part in _PARTS.items()]
)


class OperatorSettings(_Settings):  # type: ignore[misc] # made from its parts
    """All settings of an operator."""

    @property
    def batching(self) -> Any:
        """The former name of `queueing`."""
        return self.queueing
