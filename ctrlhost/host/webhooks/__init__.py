"""Webhooks of a host: the listener that the API server calls, the threads of each plugin, and what is counted.

Imported only by a host whose plugins have webhooks.
"""
