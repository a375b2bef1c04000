"""The sandbox as a whole: its thread, sockets, initial objects and kubeconfig.

Imports every other room; no other room imports it. Public: `server.Sandbox`, `crd_problem.crd_problem`,
`builtin_schemas.builtin_schemas`.
"""
