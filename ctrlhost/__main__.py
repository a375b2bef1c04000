"""Entry point of `python -m ctrlhost`, the same as `ctrlhost`."""

from ctrlhost.cli import main

main()
