"""After any sequence of faults a network converges, and nothing more is written."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ctrlhost_bitcoin.mesh.targets import is_ip

from examples.bitcoind.fake_daemon import Fails, Raw, Reply, Silent, Slow
from plugins.bitcoin.tests.cluster import NAME

STEPS = 40
SEEDS = 8
USERS_OWN = "peer.example:18444"
TROUBLES = (Silent(), Raw(), Reply(503), Reply(403), Fails(-28), Fails(-1), Slow(60), Reply(200, b"<html>"))


class Chaos:
    """Changes the pods and daemons of one network at random, and records their state."""

    def __init__(self, cluster: Any, nodes: int, seed: int) -> None:
        self.cluster, self.nodes = cluster, nodes
        self.random = random.Random(seed)
        self.pods: dict[int, tuple[str, bool, int]] = {}
        self.addresses = iter(f"10.0.{number // 250}.{number % 250 + 1}" for number in range(10_000))

    def step(self) -> None:
        """Do one random change."""
        present, absent = sorted(self.pods), sorted(set(range(self.nodes)) - set(self.pods))
        changes = [(self.come, absent), (self.go, present), (self.restart, present), (self.move, present)]
        changes += [(self.flip, present), (self.trouble, present), (self.trouble, present)]
        change, ordinals = self.random.choice([entry for entry in changes if entry[1]])
        change(self.random.choice(ordinals))

    def come(self, ordinal: int) -> None:
        ip, ready = next(self.addresses), self.random.random() < 0.8
        self.cluster.daemon(ip, dials=self.random.random() < 0.5)
        self.cluster.pod(ordinal, ip, ready=ready)
        self.pods[ordinal] = ip, ready, 0

    def go(self, ordinal: int) -> None:
        ip, _, _ = self.pods.pop(ordinal)
        self.cluster.delete_pod(ordinal)
        self.lose(ip)

    def restart(self, ordinal: int) -> None:
        ip, ready, restarts = self.pods[ordinal]
        self.cluster.http.daemons[ip].forget()
        self.unlink(ip)
        self.pods[ordinal] = ip, ready, restarts + 1
        self.cluster.set_pod(ordinal, restarts=restarts + 1)

    def move(self, ordinal: int) -> None:
        old, ready, restarts = self.pods[ordinal]
        ip = next(self.addresses)
        self.cluster.daemon(ip)
        self.pods[ordinal] = ip, ready, restarts
        self.cluster.set_pod(ordinal, ip)
        self.lose(old)

    def flip(self, ordinal: int) -> None:
        ip, ready, restarts = self.pods[ordinal]
        self.pods[ordinal] = ip, not ready, restarts
        self.cluster.set_pod(ordinal, ready=not ready)

    def trouble(self, ordinal: int) -> None:
        daemon = self.cluster.http.daemons[self.pods[ordinal][0]]
        daemon.script(self.random.choice(TROUBLES), times=self.random.randint(1, 4))
        if self.random.random() < 0.3:
            daemon.added.append(self.random.choice(["10.9.9.9", USERS_OWN]))

    def lose(self, ip: str) -> None:
        del self.cluster.http.daemons[ip]
        self.unlink(ip)

    def unlink(self, ip: str) -> None:
        for daemon in self.cluster.http.daemons.values():
            daemon.links.discard(ip)

    def quiet(self) -> None:
        """End the faults, and wait as long as the plugin's longest waits."""
        for daemon in self.cluster.http.daemons.values():
            daemon.behave()
        self.cluster.after(90, 5)

    def targets(self, ordinal: int) -> set[str]:
        """Return the peers that a node should know, computed naively."""
        reach = self.nodes - 1 if self.nodes <= 9 else min(8, -(-(self.nodes - 1) // 2))
        others = {(ordinal + distance) % self.nodes for distance in range(1, reach + 1)} - {ordinal}
        return {self.pods[other][0] for other in others if other in self.pods and self.pods[other][1]}


@pytest.mark.behaviour("bitcoin/B44")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_daemon_knows_its_peers_once_the_faults_end(cluster: Any, seed: int) -> None:
    nodes = 4 if seed % 3 else 11
    replica = cluster.start()
    cluster.net(nodes)
    cluster.idle()
    cluster.settles = False
    chaos = Chaos(cluster, nodes, seed)
    for _ in range(STEPS):
        chaos.step()
        if chaos.random.random() < 0.4:
            cluster.after(chaos.random.choice([0.5, 1.0, 3.0]))
    chaos.quiet()
    for ordinal, (ip, ready, _) in chaos.pods.items():
        if ready:
            daemon = cluster.http.daemons[ip]
            assert {peer for peer in daemon.added if is_ip(peer)} == chaos.targets(ordinal), (seed, ordinal)
            assert chaos.targets(ordinal) <= daemon.links
    node_states = [(node["ordinal"], node["ip"], node["ready"]) for node in cluster.status()["nodes"]]
    assert node_states == [(ordinal, ip, ready) for ordinal, (ip, ready, _) in sorted(chaos.pods.items())]
    replica.forget()
    for _ in range(2):
        runs = replica.runs()
        replica.enqueue(NAME)
        cluster.idle()
        assert replica.runs() > runs
    assert replica.writes(events=True) == []
