"""The generated table of types: `make tables`."""
