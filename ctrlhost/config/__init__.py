"""Settings: their names, types and defaults, and where their values come from."""
