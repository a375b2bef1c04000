"""A toy kubelet that runs the pods of a bitcoin network, with real or fake daemons."""
