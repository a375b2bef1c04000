"""A toy kubelet that runs the pods of a bitcoin network, as real daemons or as fake ones."""
