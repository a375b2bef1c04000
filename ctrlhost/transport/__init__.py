"""Bytes to the API server and back: requests, streams, connections, framing.

`interface` says what the rooms above may rely on. Imports `kubeconfig`, `errors`. Public: nothing.
"""
