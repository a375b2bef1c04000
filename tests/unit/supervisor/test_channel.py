"""The control socket between a host and the process of an isolated plugin."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ctrlhost.entries import Degradation
from ctrlhost.health import Check
from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.plugin.probe import CheckState, Outcome
from ctrlhost.selectors.namespaces import NamespaceSelector
from ctrlhost.supervisor import channel as messages
from ctrlhost.supervisor.channel import Channel, FedScope, Invalid, Mistake, Synced


def pair() -> tuple[Channel, Channel, socket.socket]:
    """Return both ends, and another descriptor of the second one."""
    ours, theirs = socket.socketpair()
    other = theirs.dup()
    return Channel(ours, of_process=False), Channel(theirs, of_process=True), other


def test_a_message_that_is_not_read_in_time_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrlhost.supervisor.channel._SEND_TIMEOUT", 1)
    sender, receiver, other = pair()
    messages = [f"{number}" * 100_000 for number in range(100)]
    sent = 0
    while sender.send(messages[sent]):
        sent += 1
    assert not sender.send("small")
    received = []
    while (message := receiver.receive()) is not None:
        received.append(message)
    # Never the rest of one message taken for the beginning of another one.
    assert received == messages[:sent]
    for endpoint in (sender, receiver, other):
        endpoint.close()


def test_the_rest_is_what_was_sent_before() -> None:
    ours, theirs, other = pair()
    assert theirs.send(Mistake("last", None))
    theirs.close()
    ours.receive_rest()
    assert ours.receive() == Mistake("last", None)
    assert ours.receive() is None
    ours.close()
    other.close()


def test_the_end_of_a_connection_wakes_the_thread_that_receives() -> None:
    ours, theirs, other = pair()
    seen, first = [], threading.Event()

    def receive() -> None:
        while seen[-1:] != [None]:
            seen.append(ours.receive())
            first.set()

    receiving = threading.Thread(target=receive, daemon=True)
    receiving.start()
    assert theirs.send(Synced())
    assert first.wait(30)
    ours.close()
    receiving.join(30)
    assert seen == [Synced(), None]
    assert not ours.send("late")
    ours.close()
    theirs.close()
    other.close()


SELECTOR = NamespaceSelector(names=("a",), labels=("x=y",), within=NamespaceSelector(globs=("team-*",)))
SCOPES = [
    Scope("v1", "Pod"),
    Scope("apps/v1", "Deployment", ("a", "b"), "x=y", "metadata.name=z", "metadata"),
    Scope("v1", "Secret", SELECTOR, reads=("spec.a", "data")),
]


@pytest.mark.behaviour("findings3/NC21")
@pytest.mark.parametrize(
    "message",
    [
        messages.Configured(),
        Mistake("text", None),
        messages.IsSetUp(("pages",), ("one", "two"), (messages.WebhookRoute("/validate/p/w", 5.0, {"name": "w"}),)),
        *(messages.Declare(1, FedScope.of(scope)) for scope in SCOPES),
        messages.Announce(FedScope.of(SCOPES[1])),
        messages.AwaitLists(2),
        messages.Install(
            3,
            [{"apiVersion": "x/v1", "spec": {"list": [1, 2.5, None, {"a": True}]}}],
            [{"apiVersion": "v1", "data": {}}],
            "1.2",
        ),
        Synced(),
        messages.Beat(
            "running",
            "",
            final=False,
            hangs=True,
            checks=(Check("a", passed=True, detail="d", decides=False),),
            leadership=(),
            health=(CheckState("h", Outcome("why", 1.5), None), CheckState("i", None, 2.0)),
            probe=4,
            degraded={"slow": Degradation("text", 5.5)},
        ),
        messages.Drained(True),
        messages.Acted(5, 200, b"\x00\xff"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_the_host_receives_what_a_process_sends(message: Any) -> None:
    ours, theirs, other = pair()
    assert theirs.send(message)
    received = ours.receive()
    assert type(received) is type(message)
    assert received == message
    if isinstance(message, messages.Declare):
        assert received.scope.scope() in SCOPES
    for end in (ours, theirs, other):
        end.close()


class Evil:
    """An object whose pickle creates a file where it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.behaviour("findings3/NC21")
@pytest.mark.parametrize("kind", ["pickle", "noise", "message of the host", "scope", "deep", "too large"])
def test_an_invalid_message_of_a_process_is_refused_and_runs_nothing(kind: str, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    host, connection = Channel(ours, of_process=False), Connection(theirs.detach())
    if kind == "too large":
        # Only its length: nothing of the rest is waited for, or kept.
        os.write(connection.fileno(), struct.pack("!i", 1 << 30))
    else:
        scope = {"api_version": "", "kind": "Pod", "namespaces": None, "label_selector": None, "field_selector": None}
        raw = {
            "pickle": lambda: pickle.dumps(Evil(tmp_path / "run")),
            "noise": lambda: b"\xc1\x00",
            "message of the host": lambda: msgspec.msgpack.encode({"type": "Run", "with_crds": False}),
            "scope": lambda: msgspec.msgpack.encode({"type": "Announce", "scope": {**scope, "reads": None}}),
            "deep": lambda: b"\x91" * 100_000,
        }[kind]()
        connection.send_bytes(raw)
    received = host.receive()
    assert isinstance(received, Invalid)
    assert received.problem.startswith("a message of more than 64 MiB" if kind == "too large" else "an invalid message")
    assert list(tmp_path.iterdir()) == []
    host.close()
