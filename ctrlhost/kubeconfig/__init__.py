"""Where the API server is and as whom to log in: kubeconfig files, service accounts, credentials.

Imports `errors` and `typed_json`. Public: nothing; `ctrlhost.Client.load` uses it.
"""
