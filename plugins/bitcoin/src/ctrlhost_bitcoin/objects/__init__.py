"""The Kubernetes objects of a network: its spec, its credentials, and what is created for it."""
