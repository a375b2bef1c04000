"""The parts of Services that their checks look at."""
