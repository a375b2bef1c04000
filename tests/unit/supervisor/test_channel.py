"""The control socket between a host and the process of an isolated plugin."""

from __future__ import annotations

import socket
import threading

import pytest

from ctrlhost.supervisor.channel import Channel


def pair() -> tuple[Channel, Channel, socket.socket]:
    """Return both ends, and another descriptor of the second one."""
    ours, theirs = socket.socketpair()
    other = theirs.dup()
    return Channel(ours), Channel(theirs), other


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
    for one in (sender, receiver, other):
        one.close()


def test_the_rest_is_what_was_sent_before() -> None:
    ours, theirs, other = pair()
    assert theirs.send("last")
    theirs.close()
    ours.receive_rest()
    assert ours.receive() == "last"
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
    assert theirs.send("first")
    assert first.wait(30)
    ours.close()
    receiving.join(30)
    assert seen == ["first", None]
    assert not ours.send("late")
    ours.close()
    theirs.close()
    other.close()
