"""Tools for plugin authors: typed models from CRDs, checks of plugins, new projects.

Imports all rooms but `cli` and `testing`. Public: nothing; the command line uses it.
"""
