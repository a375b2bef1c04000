"""HTTP: listeners, probes, metrics and the pages of plugins.

Imports `health`, `errors`; what it shows is passed in. Public: nothing.
"""
