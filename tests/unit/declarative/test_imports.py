"""What a module that only declares a plugin imports."""

from __future__ import annotations

import subprocess
import sys

DECLARES = """
import sys
import msgspec
import ctrlhost

class Spec(msgspec.Struct, frozen=True):
    size: int = 1

@ctrlhost.resource("cache.example.com/v1alpha1")
class Memcached(ctrlhost.Model[Spec, ctrlhost.ModelStatus]):
    pass

plugin = ctrlhost.Plugin(settings=Spec)

@plugin.index("v1/Pod")
def by_node(pod):
    return None

@plugin.controller(Memcached, owns=["apps/v1/Deployment"])
def reconcile(ctx: ctrlhost.Context[Memcached, Spec], mc: Memcached) -> ctrlhost.Result | None:
    pass

@plugin.task()
def task(host, stop):
    pass

print(*sorted(sys.modules))
"""


def test_a_declaration_needs_neither_informers_nor_a_client() -> None:
    done = subprocess.run([sys.executable, "-c", DECLARES], capture_output=True, text=True, check=True, timeout=60)
    imported = set(done.stdout.split())
    assert "ctrlhost.declarative.plugin" in imported
    costly = {"asyncio", "prometheus_client", "ctrlhost.client", "ctrlhost.informers", "ctrlhost.controller.sources"}
    assert imported & costly == set()
