"""HTTP servers: listeners, and the app that serves probes, metrics and the pages of plugins.

Imports `health` and `errors`; the host passes in the content. Public: nothing.
"""
