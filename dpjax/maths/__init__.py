"""Mathematics that knows of no learner: sums, barriers, designs. A learner's author comes in."""
