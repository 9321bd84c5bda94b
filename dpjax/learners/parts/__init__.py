"""Shared parts of learners: loss sums, noise and its calibration, and counts."""
