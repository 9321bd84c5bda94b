"""Compiles games and runs them on devices. A learner's author never needs to come in."""
