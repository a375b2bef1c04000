"""The sandbox as a whole: its thread, its sockets, its first objects, its kubeconfig.

Imports every other room; no other room imports it. Public: `server.Sandbox`.
"""
