"""Tasks that still run after the attempt that has started them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.plugin.task import Task

log = logging.getLogger("ctrlhost.host")


class LeftTasks:
    """The tasks of a plugin's earlier attempts. Callable from any thread."""

    def __init__(self) -> None:
        """Start without tasks."""
        self._lock = threading.Lock()
        #: Whether it was logged that they still run.
        self._told: dict[Task, bool] = {}

    def add(self, tasks: Iterable[Task]) -> None:
        """Add tasks of an attempt that is over."""
        with self._lock:
            self._told |= dict.fromkeys(tasks, False)

    def has(self, name: str) -> bool:
        """Return whether a task of this name still runs; logged once."""
        with self._lock:
            self._told = {task: told for task, told in self._told.items() if task.running}
            left = next((task for task in self._told if task.name == name), None)
            if left is not None and not self._told[left]:
                self._told[left] = True
                log.warning("task %s does not start again: its call from before the restart still runs", name)
            return left is not None
