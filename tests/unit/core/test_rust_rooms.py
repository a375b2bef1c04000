"""The modules of each crate use one another downwards, in the order of the groups in its `lib.rs`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CRATES = sorted(path.parent.parent for path in ROOT.glob("rust/*/src/lib.rs"))
ROOM = re.compile(r"^(?:pub )?mod (\w+);", re.MULTILINE)
CRATE_PATH = re.compile(r"\bcrate::(?:\{([^;]*)\}|(\w+))")
SUPER_PATH = re.compile(r"\b((?:super::)+)(\w+)")


def floors(crate: Path) -> dict[str, int]:
    """Return the number of each room's group."""
    groups = re.split(r"\n\n+", (crate / "src/lib.rs").read_text(encoding="utf-8"))
    return {room: floor for floor, group in enumerate(groups) for room in ROOM.findall(group)}


def used(path: Path, source: Path) -> set[str]:
    """Return the names at the root of the crate that a file uses."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    names = set()
    for several, single in CRATE_PATH.findall(text):
        names |= set(re.findall(r"\w+", several)) if several else {single}
    parts = path.relative_to(source).with_suffix("").parts
    depth = len(parts) - (path.name == "mod.rs")
    names |= {name for supers, name in SUPER_PATH.findall(text) if supers.count("::") >= depth}
    return names


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_a_module_uses_only_those_of_the_groups_above_its_own(crate: Path) -> None:
    source = crate / "src"
    rooms = floors(crate)
    upwards = []
    for path in sorted(source.rglob("*.rs")):
        room = path.relative_to(source).parts[0].removesuffix(".rs")
        if room != "lib":
            others = used(path, source) & rooms.keys() - {room}
            upwards += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(others) if rooms[name] >= rooms[room]]
    assert upwards == []
