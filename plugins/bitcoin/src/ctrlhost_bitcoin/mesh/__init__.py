"""The mesh of a network: which daemons know each other, and how far that has come."""
