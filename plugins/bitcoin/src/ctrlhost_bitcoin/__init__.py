"""Runs private networks of bitcoin nodes, a ctrlhost plugin."""
