"""What several learners share: sums of losses, their noise and its calibration, and counts."""
