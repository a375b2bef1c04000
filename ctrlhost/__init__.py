"""Informers, work queues and a plugin host for Kubernetes controllers."""

from __future__ import annotations

from ctrlhost._core import __version__

__all__ = ["__version__"]
