"""The committed tables of built-in kinds are what the program in tests/go/protobuf writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/go/bin/protobuf"
WIRE = ROOT / "rust/core/src/proto/fields.table"
TYPES = ROOT / "sandbox/src/ctrlhost_sandbox/registry/data/types.json"
LIMIT = 60.0


@pytest.mark.real
@pytest.mark.behaviour("scale/SC68")
def test_the_tables_are_those_of_the_go_types(tmp_path: Path) -> None:
    if not PROGRAM.exists():
        pytest.skip("tests/go/bin/protobuf is not built; `make real-tools` builds it")
    written = {table: tmp_path / table.name for table in (WIRE, TYPES)}
    subprocess.run([str(PROGRAM), "tables", *map(str, written.values())], timeout=LIMIT, check=True)
    for table, fresh in written.items():
        same = fresh.read_bytes() == table.read_bytes()
        assert same, f"{table.relative_to(ROOT)} is out of date; run `make tables`"
    assert WIRE.stat().st_size <= 120 * 1024
