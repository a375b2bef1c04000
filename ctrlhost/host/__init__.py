"""The host: it wires plugins, informers, server and metrics together, and shuts them down in order.

The only room that imports all those below. Public: nothing; `ctrlhost run` and `ctrlhost.testing` use it.
"""
