"""Tools for plugin authors: typed models from CRDs.

Imports only `errors`. Public: nothing; the command line uses it.
"""
