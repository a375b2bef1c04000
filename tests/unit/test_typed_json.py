"""The first concurrent decoding into a type."""

from __future__ import annotations

import subprocess
import sys

# In a separate process: a failure here crashes the interpreter.
RACE = """
import sys, threading
import msgspec
from ctrlhost.cache import Object

NEW = '''
class S{n}(msgspec.Struct):
    a: {inner} = 0
    b: tuple[str, ...] = ()
'''
sys.setswitchinterval(1e-6)
text = {"metadata": {"name": "x"}, "a": {"a": {"a": {}}}, "b": ["x"]}
done = []
for _ in range(100):
    scope = {"msgspec": msgspec}
    for n in range(6):
        exec(NEW.format(n=n, inner=f"S{n - 1}" if n else "int"), scope)
    obj, barrier = Object(text), threading.Barrier(4)

    def decode():
        barrier.wait()
        done.append(obj.decode(scope["S5"]).a.a.a.b)

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert done == [()] * 400
"""


def test_threads_decode_into_a_new_type_concurrently() -> None:
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
