"""The host: it wires plugins, informers, server and metrics together, and shuts them down in order.

Imports `supervisor`, `server` and below; only `cli` and `testing` import it. Public: nothing.
"""
