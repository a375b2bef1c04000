"""`python -m ctrlhost_sandbox` is the command `ctrlhost-sandbox`."""

from ctrlhost_sandbox.cli.command import main

main()
