"""Who may do what: Roles, ClusterRoles and their bindings, read and applied as kube-apiserver does."""
