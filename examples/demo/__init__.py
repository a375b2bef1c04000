"""`make demo`: all bundled plugins on the sandbox, with example objects, and what came of them."""
