"""`python -m ctrlhost` is `ctrlhost`."""

from ctrlhost.cli import main

main()
