"""What the source of an operator says before it is imported: what it imports and calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: The functions by which a file runs its operator itself.
_RUNS = frozenset({"run", "operator", "spawn_tasks"})


class Source:
    """A file of an operator."""

    def __init__(self, path: Path) -> None:
        """Parse the file; SyntaxError if it is invalid."""
        #: The top-level modules that it imports, also within functions, and its calls of attributes.
        self.imports: set[str] = set()
        self.calls: list[tuple[ast.Attribute, ast.Call]] = []
        for node in ast.walk(ast.parse(path.read_bytes(), path)):
            if isinstance(node, ast.Import):
                self.imports |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                self.imports.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                self.calls.append((node.func, node))

    @property
    def runs_itself(self) -> bool:
        """Whether it imports `kopf` and calls what runs an operator."""
        owners = (function.value for function, _ in self.calls if function.attr in _RUNS)
        return "kopf" in self.imports and any(isinstance(owner, ast.Name) and owner.id == "kopf" for owner in owners)
