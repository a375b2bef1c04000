"""Entries: the calls of the host into one plugin's Python code, each with a deadline; and why a plugin is degraded.

A Python thread cannot be stopped. When an entry is overdue the host therefore names it, continues without its thread,
and may restart the plugin. Whoever calls a plugin opens an `Entry` for the thread or slot that it calls on; the thread
of `supervisor/deadlines` compares all running entries with their deadlines.

Imports `request`. Public: nothing; every room that calls plugins opens entries here.
"""

from __future__ import annotations

from ctrlhost.entries.defaults import DEADLINES
from ctrlhost.entries.degradation import REASONS, Degradation, Reason
from ctrlhost.entries.entries import Entries
from ctrlhost.entries.entry import Entry
from ctrlhost.entries.stacks import awaited, stack_of

__all__ = ["DEADLINES", "REASONS", "Degradation", "Entries", "Entry", "Reason", "awaited", "stack_of"]
