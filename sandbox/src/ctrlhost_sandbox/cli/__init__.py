"""The command `ctrlhost-sandbox`.

Data goes to stdout, everything else to stderr. Exit codes: 0 for a shut down by a signal, that of the command that it
ran, 2 for invalid usage. Public: nothing.
"""
