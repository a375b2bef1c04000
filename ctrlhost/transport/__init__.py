"""Bytes to the API server and back: requests, streams, connections, framing.

The rooms above rely on `interface` alone. Imports `kubeconfig`, `errors`. Public: nothing.
"""
