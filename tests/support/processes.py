"""The processes that another one has started, as `/proc` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Found:
    """A process at the moment of a look."""

    pid: int
    parent: int
    group: int
    zombie: bool
    command: str


def processes() -> list[Found]:
    """Return all processes that can be seen."""
    return [
        process
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and (process := _look(folder)) is not None
    ]


def children_of(parent: int) -> list[Found]:
    return [process for process in processes() if process.parent == parent]


def of_groups(groups: set[int]) -> list[Found]:
    """Return what is left of process groups, whoever is its parent."""
    return [process for process in processes() if process.group in groups]


def rss_of(pid: int) -> int:
    """Return the resident memory in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"process {pid} has no memory")


def _look(path: Path) -> Found | None:
    try:
        # The command may contain blanks and parentheses.
        state, parent, group = (path / "stat").read_text().rpartition(")")[2].split()[:3]
        command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return Found(int(path.name), int(parent), int(group), state == "Z", command)
