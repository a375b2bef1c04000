"""JSON-RPC to bitcoin daemons."""
