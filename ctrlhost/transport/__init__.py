"""Transport to and from the API server: requests, streams, connections, framing.

The rooms above rely on `interface` alone. Imports `kubeconfig`, `errors`. Public: nothing.
"""
