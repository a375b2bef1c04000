"""`ctrlhost sandbox`: the command `ctrlhost-sandbox` of the distribution of that name."""

from __future__ import annotations

from ctrlhost.sandbox import load_sandbox

load_sandbox()

from ctrlhost_sandbox.cli.command import command  # noqa: E402 - the line before says what is missing

__all__ = ["command"]
