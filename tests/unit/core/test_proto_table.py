"""The committed table of protobuf fields is what the program in tests/go/protobuf writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/go/bin/protobuf"
TABLE = ROOT / "rust/core/src/proto/fields.table"
LIMIT = 60.0


@pytest.mark.real
@pytest.mark.behaviour("scale/SC68")
def test_the_table_of_fields_is_that_of_the_go_types() -> None:
    if not PROGRAM.exists():
        pytest.skip("tests/go/bin/protobuf is not built; `make real-tools` builds it")
    done = subprocess.run([str(PROGRAM), "table"], capture_output=True, timeout=LIMIT, check=True)
    same = done.stdout == TABLE.read_bytes()
    assert same, f"{TABLE.relative_to(ROOT)} is out of date; run `make proto-table`"
    assert len(done.stdout) <= 120 * 1024
