"""Addresses and credentials of API servers, from kubeconfig files and service accounts.

Imports `errors` and `typed_json`. Public: nothing; `ctrlhost.Client.load` uses it.
"""
