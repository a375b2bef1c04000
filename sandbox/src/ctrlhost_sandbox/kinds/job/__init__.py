"""The parts of Jobs that their checks look at."""
