"""Generated tables and their generator."""
