from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: Forks while another thread makes the value; parent and child print theirs.
PROGRAM = """
import os, threading
from ctrlhost.transport.per_process import PerProcess

begun, release, parent = threading.Event(), threading.Event(), os.getpid()

def make():
    if os.getpid() == parent:
        begun.set()
        release.wait()
    return os.getpid()

value = PerProcess(make)
thread = threading.Thread(target=value.get)
thread.start()
begun.wait()
child = os.fork()
if not child:
    print(value.get() == os.getpid(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
release.set()
thread.join()
print(value.get() == parent)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_that_is_forked_while_the_value_is_made_makes_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("True\nTrue\n", 0), done.stderr
