"""Mathematics that knows of no learner: sums, barriers, designs. Authors of learners come in."""
