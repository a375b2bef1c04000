"""The parts of pods that their checks look at."""
