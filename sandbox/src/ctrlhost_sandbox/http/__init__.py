"""HTTP/1.1 and TLS on asyncio: connections, requests, responses and streams.

Imports `apimachinery`. Public: `messages`, the connections of `http`, and `tls`, which alone needs `cryptography`.
"""
