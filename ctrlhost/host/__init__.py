"""The host: wires plugins, informers, server and metrics, and ends them in order.

The only room that knows all others below. Public: nothing; `ctrlhost run` and `ctrlhost.testing` use it.
"""
