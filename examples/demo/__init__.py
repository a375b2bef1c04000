"""`make demo`: all bundled plugins on the sandbox, with example objects and their results."""
