"""Tools for authors of plugins: typed models from CRDs.

Imports nothing of the host. Public: nothing; the command line uses it.
"""
