"""HTTP servers: listeners, and the app that serves probes, metrics and the pages of plugins.

Imports `health` and `errors`; what it shows is passed in. Public: nothing.
"""
