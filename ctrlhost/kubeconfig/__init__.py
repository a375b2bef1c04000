"""Where the API server is and who asks: kubeconfig files, service accounts, credentials.

Imports the floor below: `clock`, `errors`. Public: nothing; `ctrlhost.Client.load` uses it.
"""
