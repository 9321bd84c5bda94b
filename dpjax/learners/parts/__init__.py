"""What several learners share: sums of losses, with their noise. A learner's author comes in."""
